"""`ebbtide pack`: rewrite a model so that exactly the missing planes can be read from disk."""

from pathlib import Path

import click

from ebbtide.app.background import run_job
from ebbtide.app.console import ProgressPrinter, note
from ebbtide.app.context import AppContext
from ebbtide.app.file_kinds import refuse_other_kinds
from ebbtide.app.models import resolve
from ebbtide.app.options import refuse
from ebbtide.engine.errors import ModelError
from ebbtide.engine.sizes import format_bytes


@click.command("pack", short_help="Make a pack of a model for paging from disk.")
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path), help="Where the pack goes; default: ebbtide's cache.")
@click.option("--resume", is_flag=True, help="Go on with a pack that was begun.")
@click.option("--any-precision", is_flag=True, hidden=True)
@click.pass_obj
def pack(context: AppContext, model: str, out: Path | None, resume: bool, any_precision: bool) -> None:
    """Make a pack and print its path."""
    refuse("--any-precision", any_precision, {False})
    source = resolve(model, context.paths)
    if not source.exists():
        raise ModelError(f"The model {model!r} is not there yet", hint="`ebbtide pull starter` fetches it.")
    refuse_other_kinds(source)
    arguments = ["pack", str(source), str(out.absolute()) if out else "", str(context.paths.cache)]
    arguments += ["resume"] if resume else []
    with ProgressPrinter() as progress:
        path = run_job(arguments, context.paths.engine_log, progress.update)
    note(f"The pack has {format_bytes(path.stat().st_size)}.")
    print(path)
