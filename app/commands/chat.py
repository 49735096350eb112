"""`ebbtide [MODEL]`: the chat."""

import click

from ebbtide.app.context import AppContext
from ebbtide.app.options import (
    EngineFlags,
    SamplingFlags,
    engine_options,
    model_argument,
    refuse,
    sampling_options,
)


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
    raise NotImplementedError
