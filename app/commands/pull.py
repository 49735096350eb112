"""`ebbtide pull`: fetch the starter model."""

import click

from ebbtide.app.commands.loading import fetch_starter
from ebbtide.app.console import note
from ebbtide.app.context import AppContext
from ebbtide.app.safe_text import safe_line
from ebbtide.app.starter import DEFAULT_QUANT, QUANTS, STARTER
from ebbtide.engine.errors import UsageError
from ebbtide.engine.sizes import format_bytes


@click.command("pull", short_help="Fetch the starter model.")
@click.argument("model", default=STARTER)
@click.option("--quant", type=click.Choice(QUANTS), default=DEFAULT_QUANT, show_default=True)
@click.option("--force", is_flag=True, help="Make it anew even if it is there.")
@click.pass_obj
def pull(context: AppContext, model: str, quant: str, force: bool) -> None:
    """Fetch the starter model and print its path."""
    if model != STARTER:
        raise UsageError(
            f"Only the starter can be pulled in this version, not {safe_line(model)!r}",
            hint="Download its GGUF file yourself and give its path; `ebbtide ls` lists what is here.",
        )
    path = fetch_starter(context, quant, force=force)
    note(f"The starter ({quant}, {format_bytes(path.stat().st_size)}) is ready.")
    print(path)
