"""`ebbtide calibrate`: find out which inputs of each expert matter, so that less precision costs less."""

import json
import time
from pathlib import Path

import click
import msgspec

from ebbtide.app.commands.loading import open_session, prepare_load
from ebbtide.app.console import ProgressPrinter, note
from ebbtide.app.context import AppContext
from ebbtide.app.options import EngineFlags, calibrate_options
from ebbtide.app.signals import STOPPING
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Calibrate, Calibrated, Loaded
from ebbtide.engine.sizes import format_bytes


@click.command("calibrate", short_help="Measure which weights of a model matter most.")
@click.argument("model")
@click.option(
    "--text",
    "text_file",
    type=click.Path(path_type=Path),
    help="UTF-8; default: sources and documentation of Python.",
)
@click.option(
    "--imatrix",
    "imatrix_file",
    type=click.Path(path_type=Path),
    help="Take an importance matrix of llama.cpp instead of a text.",
)
@click.option(
    "--tokens", type=click.IntRange(2), help="Use so many tokens of the text at most; default: 51200."
)
@click.option("--resume", is_flag=True, help="Go on with a calibration that was interrupted.")
@click.option("--json", "as_json", is_flag=True)
@calibrate_options
@click.pass_obj
def calibrate(
    context: AppContext,
    model: str,
    text_file: Path | None,
    imatrix_file: Path | None,
    tokens: int | None,
    resume: bool,
    as_json: bool,
    flags: EngineFlags,
) -> None:
    """Take a text through MODEL, or read an importance matrix, keep what it tells, and print where.

    It is done once for a model. Interrupted, --resume goes on where it was.
    """
    if imatrix_file is not None and (text_file is not None or tokens is not None or resume):
        raise UsageError(
            "--imatrix takes the place of a text: --text, --tokens and --resume do not go with it",
            hint="Leave out one or the other.",
        )
    load = msgspec.structs.replace(prepare_load(context, model, flags), device="cpu")
    began = time.monotonic()
    with open_session(context, load) as (session, loaded), ProgressPrinter() as progress:
        wish = Calibrate(
            session.next_request_id(),
            str(context.paths.cache),
            text_path=_absolute(text_file),
            imatrix_path=_absolute(imatrix_file),
            max_tokens=tokens or 0,
            resume=resume,
        )
        try:
            done = session.calibrate(wish, progress.update)
        except STOPPING:
            if imatrix_file is None:
                note("Interrupted: with --resume it goes on from the last checkpoint.")
            raise
    _report(loaded, done, time.monotonic() - began, as_json)


def _absolute(path: Path | None) -> str:
    """For the engine, whose folder may be another one; empty = not given."""
    return str(path.absolute()) if path is not None else ""


def _report(loaded: Loaded, done: Calibrated, seconds: float, as_json: bool) -> None:
    experts = loaded.layers * loaded.experts
    if as_json:
        result = {
            "model": loaded.name,
            "file": done.path,
            "bytes": done.bytes,
            "tokens": done.tokens,
            "experts": experts,
            "unused_experts": done.unused_experts,
            "residuals": done.residuals,
            "seconds": round(seconds, 3),
        }
        print(json.dumps(result))
        return
    note(f"Calibrated with {done.tokens:,} tokens; the file has {format_bytes(done.bytes)}.")
    if done.unused_experts:
        note(
            f"{done.unused_experts:,} of {experts:,} experts were never chosen and count as the mean of "
            "their layer: a longer text may reach them."
        )
    if done.residuals:
        note(done.residuals)
    print(done.path)
