"""`ebbtide pack`: rewrite a model so that exactly the missing planes can be read from disk."""

import time
from pathlib import Path

import click

from ebbtide.app.background import run_job
from ebbtide.app.console import ProgressPrinter, note
from ebbtide.app.context import AppContext
from ebbtide.app.file_kinds import refuse_other_kinds
from ebbtide.app.models import resolve
from ebbtide.app.signals import STOPPING
from ebbtide.app.stages import lasted
from ebbtide.engine.errors import ModelError
from ebbtide.engine.sizes import format_bytes


@click.command("pack", short_help="Make a pack of a model for paging from disk.")
@click.argument("model")
@click.option("--out", type=click.Path(path_type=Path), help="Where the pack goes; default: ebbtide's cache.")
@click.option("--resume", is_flag=True, help="Go on with a pack that was begun.")
@click.option(
    "--any-precision",
    is_flag=True,
    help="Give the experts codes that are better at few bits, and lose something against the file.",
)
@click.pass_obj
def pack(context: AppContext, model: str, out: Path | None, resume: bool, any_precision: bool) -> None:
    """Make a pack and print its path.

    Its weights are those of the file. With --any-precision experts get codes of up to six bits instead,
    chosen for the least error at every number of bits: weighed by what `ebbtide calibrate` found out about
    MODEL, else all inputs alike. They are near the file's weights, not the same. So that pack has a place of
    its own, it is used only where it is given as MODEL, and exact computation with it is exact in its codes.
    """
    source = resolve(model, context.paths)
    if not source.exists():
        raise ModelError(f"The model {model!r} is not there yet", hint="`ebbtide pull starter` fetches it.")
    refuse_other_kinds(source)
    arguments = ["pack", str(source), str(out.absolute()) if out else "", str(context.paths.cache)]
    arguments += ["resume"] if resume else []
    arguments += ["any-precision"] if any_precision else []
    began = time.monotonic()
    with ProgressPrinter() as progress:
        try:
            path = run_job(arguments, context.paths.engine_log, progress.update, on_note=note)
        except STOPPING:
            note("Interrupted: with --resume it goes on from the last checkpoint.")
            raise
    note(f"The pack has {format_bytes(path.stat().st_size)} and took {lasted(time.monotonic() - began)}.")
    print(path)
