"""From MODEL and flags to a loaded engine, with the offers that a person may be made on the way."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ebbtide.app.console import ProgressPrinter, note
from ebbtide.app.context import AppContext
from ebbtide.app.file_kinds import refuse_other_kinds
from ebbtide.app.models import resolve
from ebbtide.app.options import EngineFlags
from ebbtide.app.sentences import statement
from ebbtide.app.starter import DEFAULT_QUANT, is_ready, is_starter, make_starter, starter_file
from ebbtide.engine.messages import Load, Loaded

if TYPE_CHECKING:
    from ebbtide.app.session import Session


def prepare_load(context: AppContext, model: str | None, flags: EngineFlags) -> Load:
    """As `find_load`, and the starter is made if it is the file that is missing."""
    load = find_load(context, model, flags)
    if needs_fetching(context, load):
        fetch_starter(context)
    return load


def that_learns(context: AppContext, load: Load) -> Load:
    """For questions of a person's: what they show of the experts is kept, if the settings do not forbid it.
    What is measured or evaluated would show something else.
    """
    return msgspec.structs.replace(load, learn=context.settings.engine.learn)


def needs_fetching(context: AppContext, load: Load) -> bool:
    """The default starter is wanted, and is not there or not finished."""
    path = Path(load.path)
    return path == starter_file(context.paths) and not is_ready(path)


def find_load(context: AppContext, model: str | None, flags: EngineFlags) -> Load:
    """Find the file and complete the command; only the starter's file may be missing."""
    path = resolve(context.settings.engine.model if model is None else model, context.paths)
    if not is_starter(path, context.paths):  # which is made again where it is damaged
        refuse_other_kinds(path)
    load = flags.load(str(path), context.settings, str(context.paths.cache))
    if load.pack == "ask" and is_starter(path, context.paths):
        return msgspec.structs.replace(load, pack="yes")
    return load


def fetch_starter(context: AppContext, quant: str = DEFAULT_QUANT, *, force: bool = False) -> Path:
    """Make the starter with a progress bar."""
    with ProgressPrinter() as progress:
        return make_starter(context.paths, quant, progress.update, force=force)


@contextmanager
def open_session(
    context: AppContext, load: Load, *, said: set[str] | None = None
) -> "Iterator[tuple[Session, Loaded]]":
    """A session with the model in it; notices of the load are printed, but those in `said`, which grows."""
    said = set() if said is None else said
    from ebbtide.app.session import Session  # the chat, which finds its model here, has no use for it

    with Session(context.make_client()) as session:
        loaded = _load(session, load)
        for notice in loaded.notices:
            if notice not in said:
                note(notice)
            said.add(notice)
        yield session, loaded


def _load(session: "Session", load: Load) -> Loaded:
    """Load; where a pack would make it fit and a person is there to be asked, offer to make one."""
    from ebbtide.app.session import PackNeededError

    try:
        with ProgressPrinter() as progress:
            return session.load(load, progress.update)
    except PackNeededError as needed:
        if load.pack != "ask" or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise
        note(statement(str(needed)))
        if not click.confirm("Make a pack of this model now?", default=True, err=True):
            raise
    with ProgressPrinter() as progress:
        return session.load(msgspec.structs.replace(load, pack="yes"), progress.update)
