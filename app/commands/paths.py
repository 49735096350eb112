"""`ebbtide paths`: where things are kept."""

import json

import click

from ebbtide.app.console import tell
from ebbtide.app.context import AppContext
from ebbtide.app.safe_text import safe_line


@click.command("paths", short_help="Say where settings, models and logs are kept.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def paths(context: AppContext, as_json: bool) -> None:
    """Say where settings, models and logs are kept."""
    places = context.paths
    rows = {
        "settings": str(places.settings_file),
        "models": str(places.models),
        "starter": str(places.starter),
        "packs": str(places.packs),
        "chats": str(places.chats),
        "state": str(places.state),
        "engine_log": str(places.engine_log),
    }
    if as_json:
        print(json.dumps(rows))
        return
    for name, value in rows.items():
        tell(f"{name:<12}{safe_line(value)}")
