"""`ebbtide ls`: the models that can be opened."""

import json

import click

from ebbtide.app.console import note, tell
from ebbtide.app.context import AppContext
from ebbtide.app.model_places import FoundModel
from ebbtide.app.models import find_models
from ebbtide.app.safe_text import safe_line
from ebbtide.engine.sizes import format_bytes


@click.command("ls", short_help="List the models on this machine.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def ls(context: AppContext, as_json: bool) -> None:
    """List ebbtide's own models and those that other programs keep."""
    models = list(find_models(context.paths))
    if as_json:
        print(json.dumps([as_object(model) for model in models]))
        return
    if not models:
        note("No models yet. `ebbtide pull starter` fetches one.")
    width = max((len(safe_line(model.name)) for model in models), default=0)
    for model in models:
        tell(f"{safe_line(model.name):<{width}}  {format_bytes(model.size_bytes):>8}  {model.source}")


def as_object(model: FoundModel) -> dict[str, object]:
    return {
        "name": model.name,
        "path": str(model.path),
        "source": model.source,
        "size_bytes": model.size_bytes,
    }
