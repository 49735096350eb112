"""`ebbtide bench`: decode and prefill speed, time to the first token."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import click
import msgspec

from ebbtide.app.bench_rounds import Kind, Rounds
from ebbtide.app.commands.loading import open_session, prepare_load
from ebbtide.app.commands.run import memory_object
from ebbtide.app.console import ProgressPrinter, note, tell
from ebbtide.app.context import AppContext
from ebbtide.app.machine import gpu_name
from ebbtide.app.options import EngineFlags, bench_options, model_argument, quality_option
from ebbtide.app.session import Session
from ebbtide.app.steadiness import steadiness_notes
from ebbtide.app.stream_rate import measure_stream_rate
from ebbtide.app.ticking import ticking
from ebbtide.engine.errors import ContextError
from ebbtide.engine.messages import Loaded
from ebbtide.engine.processors import cpu_name
from ebbtide.engine.sizes import format_bytes

FIRST_TOKEN_PROMPT = 32
PREFILL = (128, 512, 2048)
MOST_PLANES = 8


def parse_counts(context: click.Context, parameter: click.Parameter, value: str | None) -> list[int] | None:
    """`128,512,2048`, each once; None stays None. Raises BadParameter."""
    if value is None:
        return None
    parts = value.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of counts; write 128,512.")
    return list(dict.fromkeys(int(part) for part in parts))


@click.command("bench", short_help="Measure decode, prefill and first-token speed.")
@model_argument
@click.option(
    "--width",
    type=click.IntRange(1, MOST_PLANES),
    metavar="N",
    help="Read and compute only so many planes of each expert, from the top; not exact.",
)
@click.option(
    "--prefill",
    callback=parse_counts,
    show_default=f"{','.join(map(str, PREFILL))}, as far as the context holds them",
    help="Prompt lengths in tokens.",
)
@click.option(
    "--decode", type=click.IntRange(2), default=64, show_default=True, help="Answer length in tokens."
)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
@quality_option
@bench_options
@click.pass_obj
def bench(
    context: AppContext,
    model: str | None,
    width: int | None,
    prefill: list[int] | None,
    decode: int,
    runs: int,
    as_json: bool,
    flags: EngineFlags,
) -> None:
    """Measure on synthetic text with cold prefixes, in rounds: one answer and one prompt of each length.

    One round warms up; medians are over --runs more.
    """
    load = msgspec.structs.replace(prepare_load(context, model, flags), width=width or 0)
    with open_session(context, load) as (session, loaded):
        check_context(loaded, max(prefill or [FIRST_TOKEN_PROMPT]), decode)
        lengths = lengths_that_fit(loaded) if prefill is None else prefill
        result = measure(session, lengths, decode, runs)
    head = {"model": Path(load.path).name, "machine": machine_object(loaded), "width": loaded.width or None}
    if as_json:
        print(json.dumps(head | result))
    else:
        tell(as_table(head | result, loaded.planes))


def check_context(loaded: Loaded, prompt: int, decode: int) -> None:
    """Raises ContextError."""
    if max(prompt, FIRST_TOKEN_PROMPT + decode) + 1 > loaded.ctx:
        raise ContextError(
            f"{prompt:,} prompt tokens and {decode:,} answer tokens do not fit a context of {loaded.ctx:,}.",
            hint="Use smaller --prefill and --decode, or a larger --ctx.",
        )


def lengths_that_fit(loaded: Loaded) -> list[int]:
    """Those that are measured when none was given; says which are left out."""
    # A prompt of synthetic words is only about as long as is wanted.
    fitting = [count for count in PREFILL if count + count // 8 < loaded.ctx]
    left_out = [f"{count:,}" for count in PREFILL if count not in fitting]
    if left_out:
        *others, last = left_out
        lengths = f"{', '.join(others)} and {last}" if others else last
        note(f"Prefill is not measured with prompts of {lengths} tokens: the context holds {loaded.ctx:,}.")
    return fitting


def machine_object(loaded: Loaded) -> dict[str, Any]:
    return {
        "cpu": cpu_name(),
        "isa": loaded.isa,
        "threads": loaded.threads,
        "stream_bytes_per_s": measure_stream_rate(max(loaded.threads, 1)),
        "gpu": gpu_name(),
    }


def measure(session: Session, prefill: list[int], decode: int, runs: int) -> dict[str, Any]:
    """The figures of the result."""
    kinds = [Kind(FIRST_TOKEN_PROMPT, decode), *(Kind(count, 1) for count in prefill)]
    with ProgressPrinter() as progress, ticking(progress.update) as update:
        answers, *prompts = Rounds(session).run(kinds, runs, update)
    last = (prompts or [answers])[-1][-1]
    decoded = [answer.timings.decode_tok_s for answer in answers]
    read = {
        str(count): [prompt.timings.prefill_tok_s for prompt in group]
        for count, group in zip(prefill, prompts, strict=True)
    }
    named = {"decode": decoded} | {f"prefill {count}": speeds for count, speeds in read.items()}
    return {
        "decode_tok_s": spread(decoded),
        "prefill_tok_s": {count: spread(speeds) for count, speeds in read.items()},
        "first_token_s": spread([answer.timings.first_token_s for answer in answers]),
        "memory": memory_object(last.memory),
        "notes": [*steadiness_notes(named)],
    }


def spread(values: list[float]) -> dict[str, float | int]:
    return {"median": median(values), "min": min(values), "max": max(values), "runs": len(values)}


def as_table(result: dict[str, Any], planes: int) -> str:
    """A few lines for people; the experts have so many `planes`, 0 = there are none."""
    rows = [("decode", result["decode_tok_s"], "tok/s")]
    rows += [(f"prefill {count}", value, "tok/s") for count, value in result["prefill_tok_s"].items()]
    rows.append(("first token", result["first_token_s"], "s"))
    machine = result["machine"]
    head = f"{result['model']}: {machine['cpu']}, {machine['isa']}, {machine['threads']} threads"
    rest = [*_width_rows(result["width"], planes), _peak_row(result["memory"])]
    return "\n".join([head, *(_row(*row) for row in rows), *rest, *result["notes"]])


def _row(name: str, value: dict[str, Any], unit: str) -> str:
    return f"{name:<14}{value['median']:>9.2f} {unit:<6} ({value['min']:.2f} to {value['max']:.2f})"


def _width_rows(width: int | None, planes: int) -> list[str]:
    if width is None:
        return []
    return [f"{'experts':<14}{width} of {planes} planes{', not exact' if width < planes else ''}"]


def _peak_row(memory: dict[str, Any]) -> str:
    """The system's figure for the whole process, or the driver's for a card, and the ledger's."""
    ledger = f"{format_bytes(memory['peak_bytes'])} of a budget of {format_bytes(memory['budget_bytes'])}"
    peak = memory["process_peak_bytes"]
    seen = f"{format_bytes(peak)} as the system sees it; " if peak else ""
    return f"{'peak memory':<14}{seen}weights, KV and workspace {ledger}"
