"""`ebbtide [MODEL]`: the chat."""

import sys
from contextlib import suppress
from dataclasses import dataclass

import click

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.commands.loading import find_load, needs_fetching, prepare_load
from ebbtide.app.context import AppContext
from ebbtide.app.options import (
    EngineFlags,
    SamplingFlags,
    engine_options,
    model_argument,
    refuse,
    sampling_options,
)
from ebbtide.app.plain import PlainChat
from ebbtide.app.settings import save_setting
from ebbtide.app.starter import starter_fetcher
from ebbtide.engine.messages import Load, Sampling


@click.command("chat", short_help="Chat with a model (the default command).")
@model_argument
@click.option("--system", help="A system message in front of the chat.")
@click.option("--chat", "chat_id", hidden=True)
@click.option("--theme", type=click.Choice(["auto", "dark", "light"]), help="Colours of the screen.")
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
    refuse("--chat", chat_id, {None})
    wish = Wish(
        system=system if system is not None else context.settings.chat.system,
        sampling=choice.sampling(context.settings),
        theme=theme or context.settings.chat.theme,
    )
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        chat_plainly(context, prepare_load(context, model, flags), wish)
    else:
        chat_on_screen(context, find_load(context, model, flags), wish)


@dataclass(frozen=True)
class Wish:
    """What flags and settings say about the chat itself."""

    system: str
    sampling: Sampling
    theme: str


def chat_plainly(context: AppContext, load: Load, wish: Wish) -> None:
    client = context.make_client()
    session = ChatSession(client, load, system=wish.system, sampling=wish.sampling)
    PlainChat(client, session).run()


def chat_on_screen(context: AppContext, load: Load, wish: Wish) -> None:
    """Open the full screen. Exits with the code of a signal that ended it."""
    from ebbtide.app.chat_app import ChatApp, PostEvent  # Textual

    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        missing = needs_fetching(context, load)
        return ChatSession(
            context.make_client(post_engine),
            load,
            system=wish.system,
            sampling=wish.sampling,
            fetcher=starter_fetcher(context.paths, post_fetcher) if missing else None,
        )

    def remember_theme(theme: str) -> None:
        with suppress(OSError):  # a read-only home is no reason to stop
            save_setting(context.paths.settings_file, "chat", "theme", theme)

    app = ChatApp(make_session, wish.theme, remember_theme)
    app.run()
    if app.return_code:
        sys.exit(app.return_code)
