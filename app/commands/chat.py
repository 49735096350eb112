"""`ebbtide [MODEL]`: the chat."""

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ebbtide.app.commands.loading import fetch_starter, find_load, needs_fetching, prepare_load, that_learns
from ebbtide.app.console import is_dumb, note
from ebbtide.app.context import AppContext
from ebbtide.app.file_kinds import refuse_other_kinds
from ebbtide.app.first_frame import first_frame
from ebbtide.app.models import find_models, resolve, with_starter
from ebbtide.app.options import (
    EngineFlags,
    SamplingFlags,
    engine_options,
    model_argument,
    sampling_options,
)
from ebbtide.app.safe_text import safe_line
from ebbtide.app.settings import save_setting
from ebbtide.app.starter import is_starter, starter_fetcher
from ebbtide.app.theme_wishes import THEME_WISHES
from ebbtide.engine.messages import Load, Sampling

if TYPE_CHECKING:
    from ebbtide.app.chat_keeper import ChatKeeper
    from ebbtide.engine.client import EngineClient


@click.command("chat", short_help="Chat with a model (the default command).")
@model_argument
@click.option("--system", help="A system message in front of the chat.")
@click.option("--chat", "chat_id", metavar="ID", help="Go on with an earlier chat (`ebbtide chats ls`).")
@click.option("--theme", type=click.Choice(THEME_WISHES), help="Colours of the screen.")
@click.option("--plain", is_flag=True, help="Line by line, without the full screen.")
@sampling_options
@engine_options
@click.pass_obj
def chat(
    context: AppContext,
    model: str | None,
    system: str | None,
    chat_id: str | None,
    theme: str | None,
    plain: bool,
    choice: SamplingFlags,
    flags: EngineFlags,
) -> None:
    """Chat with a model. `/help` inside tells the rest."""
    keeper = open_keeper(context) if chat_id else None
    if chat_id and keeper is not None:
        keeper.store.get_chat(chat_id)  # a wrong id is said before anything is loaded
    wish = Wish(
        system=system if system is not None else context.settings.chat.system,
        sampling=choice.sampling(context.settings),
        theme=theme or context.settings.chat.theme,
        chat_id=chat_id or "",
        model=model,
    )
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and is_dumb() and not plain:
        note("This terminal (TERM=dumb) has no full screen: line by line, as with --plain.")
    if plain or not is_terminal or is_dumb():
        load = that_learns(context, prepare_load(context, model, flags))
        chat_plainly(context, load, wish, keeper or open_keeper(context))
        return
    load = that_learns(context, find_load(context, model, flags))
    # All that can be refused has been; what takes long comes now.
    with first_frame(wish.theme, safe_line(Path(load.path).stem), compact=context.settings.chat.compact):
        chat_on_screen(context, load, wish, keeper or open_keeper(context))


@dataclass(frozen=True)
class Wish:
    """What flags and settings say about the chat itself."""

    system: str
    sampling: Sampling
    theme: str
    chat_id: str
    model: str | None
    """As it was given."""


def chat_plainly(context: AppContext, load: Load, wish: Wish, keeper: "ChatKeeper") -> None:
    from ebbtide.app.chat_session import ChatSession
    from ebbtide.app.plain import PlainChat
    from ebbtide.app.rescue import save_or_rescue, tell_way_back

    def find_model(name: str, before: Load) -> Load:
        wanted = model_finder(context)(name, before)
        if needs_fetching(context, wanted):
            fetch_starter(context)
        return wanted

    client = context.make_client()
    session = ChatSession(client, load, system=wish.system, sampling=wish.sampling, keeper=keeper)
    if wish.chat_id:
        session.open(wish.chat_id)
    chat = PlainChat(client, session, find_model)
    try:
        chat.run()
    finally:
        save_or_rescue(session.keeper, session.conversation, Path.cwd())
        if sys.stdin.isatty():
            tell_way_back(session.keeper, session.conversation, wish.model)
    if chat.failure is not None and not sys.stdin.isatty():
        raise click.exceptions.Exit(chat.failure.exit_code)  # it has been told already


def model_finder(context: AppContext) -> Callable[[str, Load], Load]:
    """How `/model NAME` finds what to load. It takes a second, and may be called on any thread."""

    def find_model(name: str, before: Load) -> Load:
        path = resolve(name, context.paths)
        if not is_starter(path, context.paths):
            check_model(context, path)
        elif before.pack == "ask":
            before = msgspec.structs.replace(before, pack="yes")
        return msgspec.structs.replace(before, path=str(path))

    return find_model


def check_model(context: AppContext, path: Path) -> None:
    """Raises ModelError for a file that cannot be loaded, before the model that answers now is let go."""
    from ebbtide.app.background import run_job

    refuse_other_kinds(path)
    run_job(["check", str(path)], context.paths.engine_log, lambda stage, done, total: None)


def open_keeper(context: AppContext) -> "ChatKeeper":
    """Chats that cannot be kept on disk are kept in memory; the screen says why."""
    from ebbtide.app.chat_keeper import ChatKeeper
    from ebbtide.app.store import open_or_memory

    return ChatKeeper(open_or_memory(context.paths.chats))


def chat_on_screen(context: AppContext, load: Load, wish: Wish, keeper: "ChatKeeper") -> None:
    """Open the full screen. Exits with the code of a signal that ended it."""
    from ebbtide.app.chat_app import ChatApp, PostEvent  # Textual
    from ebbtide.app.chat_session import ChatSession
    from ebbtide.app.chat_tools import ChatTools
    from ebbtide.app.presets import PresetFolder
    from ebbtide.app.rescue import save_or_rescue, tell_way_back

    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        def find_fetcher(wanted: Load) -> "EngineClient | None":
            return starter_fetcher(context.paths, post_fetcher) if needs_fetching(context, wanted) else None

        return ChatSession(
            context.make_client(post_engine),
            load,
            system=wish.system,
            sampling=wish.sampling,
            find_fetcher=find_fetcher,
            keeper=keeper,
        )

    def remember(name: str, value: str | bool) -> None:
        with suppress(OSError):  # a read-only home is no reason to stop
            save_setting(context.paths.settings_file, "chat", name, value)

    tools = ChatTools(
        presets=PresetFolder(context.paths.config),
        settings=context.settings.chat,
        find_model=model_finder(context),
        list_models=lambda: with_starter(list(find_models(context.paths)), context.paths),
        remember=remember,
        chat_id=wish.chat_id,
    )
    app = ChatApp(make_session, wish.theme, tools)
    try:
        app.run()
    finally:
        save_or_rescue(app.session.keeper, app.session.conversation, tools.folder)
        tell_way_back(app.session.keeper, app.session.conversation, wish.model)
    if app.return_code:
        sys.exit(app.return_code)
