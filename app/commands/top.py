"""`ebbtide top`: the memory panel of an engine that runs in another terminal, read-only."""

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from ebbtide.app.console import note
from ebbtide.app.context import AppContext
from ebbtide.app.frame_json import FramePrinter
from ebbtide.app.safe_text import safe_line
from ebbtide.app.sentences import statement
from ebbtide.app.theme_wishes import THEME_WISHES
from ebbtide.engine.errors import EbbtideError, EngineDied, UsageError
from ebbtide.engine.frames import Card, Frame

if TYPE_CHECKING:
    from ebbtide.engine.attach import Viewer

FIRST_FRAME_S = 5.0
"""An engine in the middle of a long step answers after it."""
WAKE_S = 1.0


class NoEngineError(EbbtideError):
    """Nothing to look at."""

    exit_code = 3

    def __init__(self, message: str = "No engine is running") -> None:
        super().__init__(message, hint="Start `ebbtide` in another terminal first.")


@click.command("top", short_help="Watch the memory of a running engine.")
@click.argument("pid", required=False, type=click.IntRange(1), metavar="[PID]")
@click.option("--json", "as_json", is_flag=True, help="Print the figures of this moment as one JSON object.")
@click.option(
    "--follow", is_flag=True, help="One JSON object a line, several times a second, until the engine ends."
)
@click.option("--theme", type=click.Choice(THEME_WISHES), help="Colours of the screen.")
@click.pass_obj
def top(context: AppContext, pid: int | None, as_json: bool, follow: bool, theme: str | None) -> None:
    """Attach to a running engine and show its memory; nothing can be changed from here.

    Into a pipe or a file it prints one JSON object, as with --json.
    """
    with choose(context, pid) as viewer:
        if follow:
            print_frames(viewer)
        elif as_json or not sys.stdout.isatty():
            FramePrinter().show(complete_frame(viewer))
        else:
            from ebbtide.app.top_app import TopApp  # Textual

            app = TopApp(viewer, context.paths.engines, theme or context.settings.chat.theme)
            app.run()
            if app.return_code:
                raise SystemExit(app.return_code)


def choose(context: AppContext, pid: int | None) -> "Viewer":
    """A viewer of the engine that was named, or of the only one. Raises NoEngineError and UsageError."""
    from ebbtide.engine.attach import find_engines  # sockets and keys: not needed by other commands

    folder = context.paths.engines
    cards = [card for card in find_engines(folder) if pid in (None, card.pid)]
    viewers = [(card, viewer) for card in cards if (viewer := _open(context, card)) is not None]
    if not viewers:
        raise NoEngineError(f"No engine runs as process {pid}" if pid else "No engine is running")
    chosen = viewers[0][1] if len(viewers) == 1 else _pick(viewers)
    for _, viewer in viewers:
        if viewer is not chosen:
            viewer.close()
    if chosen is None:
        raise UsageError("Several engines are running", hint="Name one: `ebbtide top PID`.")
    return chosen


def _open(context: AppContext, card: Card) -> "Viewer | None":
    from ebbtide.engine.attach import Viewer

    with suppress(EngineDied):
        return Viewer(context.paths.engines, card)
    return None


def _pick(viewers: "list[tuple[Card, Viewer]]") -> "Viewer | None":
    """List them; on a terminal, ask. None = nothing was chosen."""
    for card, viewer in viewers:
        note(f"{card.pid} {_model(viewer)}")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    answer = click.prompt("Which one", default=viewers[0][0].pid, type=int, err=True)
    return next((viewer for card, viewer in viewers if card.pid == answer), None)


def _model(viewer: "Viewer") -> str:
    frame = None
    with suppress(EngineDied):
        frame = viewer.read(WAKE_S)
    return safe_line(frame.loaded.name) if frame is not None and frame.loaded is not None else "no model yet"


def complete_frame(viewer: "Viewer") -> Frame:
    """The first frame with a picture of the experts, or what there is after a while."""
    latest: Frame | None = None
    for _ in range(int(FIRST_FRAME_S / 0.25)):
        latest = viewer.read(WAKE_S) or latest
        if latest is not None and None not in (latest.residency, latest.machine):
            break
    if latest is None:
        raise NoEngineError("The engine does not answer")
    return latest


def print_frames(viewer: "Viewer") -> None:
    """One object a line until the engine or the reader ends."""
    printer = FramePrinter()
    try:
        while True:
            frame = viewer.read(WAKE_S)
            if frame is not None:
                printer.show(frame)
    except EngineDied as ended:
        note(statement(str(ended)))
