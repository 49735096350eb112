"""`ebbtide bench`: decode and prefill speed, time to the first token."""

import json
from pathlib import Path
from statistics import median
from typing import Any

import click

from ebbtide.app.cold_requests import ColdRequests
from ebbtide.app.commands.loading import open_session, prepare_load
from ebbtide.app.commands.run import memory_object
from ebbtide.app.console import ProgressPrinter
from ebbtide.app.context import AppContext
from ebbtide.app.machine import gpu_name
from ebbtide.app.options import EngineFlags, bench_options, model_argument, refuse
from ebbtide.app.session import Session
from ebbtide.app.stream_rate import measure_stream_rate
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Finished, Loaded
from ebbtide.engine.processors import cpu_name

FIRST_TOKEN_PROMPT = 32


def parse_counts(context: click.Context, parameter: click.Parameter, value: str) -> list[int]:
    """`128,512,2048`. Raises BadParameter."""
    parts = value.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"{value!r} is not a list of counts; write 128,512.")
    return [int(part) for part in parts]


@click.command("bench", short_help="Measure decode, prefill and first-token speed.")
@model_argument
@click.option("--width", type=int, hidden=True)
@click.option(
    "--prefill", callback=parse_counts, default="128,512", show_default=True, help="Prompt lengths in tokens."
)
@click.option(
    "--decode", type=click.IntRange(1), default=64, show_default=True, help="Answer length in tokens."
)
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--json", "as_json", is_flag=True)
@bench_options
@click.pass_obj
def bench(
    context: AppContext,
    model: str | None,
    width: int | None,
    prefill: list[int],
    decode: int,
    runs: int,
    as_json: bool,
    flags: EngineFlags,
) -> None:
    """Measure on synthetic text with cold prefixes; one run to warm up, then medians over --runs."""
    refuse("--width", width, {None})
    load = prepare_load(context, model, flags)
    with open_session(context, load) as (session, loaded):
        check_context(loaded, max(prefill), decode)
        bencher = Bencher(session)
        result = bencher.measure(prefill, decode, runs)
    result = {"model": Path(load.path).name, "machine": machine_object(loaded), **result}
    print(json.dumps(result) if as_json else as_table(result))


def check_context(loaded: Loaded, prompt: int, decode: int) -> None:
    if max(prompt, FIRST_TOKEN_PROMPT + decode) + 1 > loaded.ctx:
        raise UsageError(
            f"{prompt} prompt tokens and {decode} answer tokens do not fit a context of {loaded.ctx}",
            hint="Use smaller --prefill and --decode, or a larger --ctx.",
        )


def machine_object(loaded: Loaded) -> dict[str, Any]:
    return {
        "cpu": cpu_name(),
        "isa": loaded.isa,
        "threads": loaded.threads,
        "stream_bytes_per_s": measure_stream_rate(max(loaded.threads, 1)),
        "gpu": gpu_name(),
    }


class Bencher:
    """Runs requests that share no prefix: every prompt starts with other words."""

    def __init__(self, session: Session) -> None:
        self._requests = ColdRequests(session)
        self._variant = 0

    def measure(self, prefill: list[int], decode: int, runs: int) -> dict[str, Any]:
        self._request(FIRST_TOKEN_PROMPT, min(decode, 8))
        with ProgressPrinter() as progress:
            answers = self._series(progress, "decode", FIRST_TOKEN_PROMPT, decode, runs)
            prompts = {
                str(count): self._series(progress, f"prefill {count}", count, 1, runs) for count in prefill
            }
        return {
            "decode_tok_s": spread([answer.timings.decode_tok_s for answer in answers]),
            "prefill_tok_s": {
                count: spread([prompt.timings.prefill_tok_s for prompt in group])
                for count, group in prompts.items()
            },
            "first_token_s": spread([answer.timings.first_token_s for answer in answers]),
            "memory": memory_object(answers[-1].memory),
        }

    def _series(
        self, progress: ProgressPrinter, stage: str, prompt: int, answer: int, runs: int
    ) -> list[Finished]:
        answers = []
        for run in range(runs):
            progress.update(stage, run, runs)
            answers.append(self._request(prompt, answer))
        return answers

    def _request(self, prompt_tokens: int, answer_tokens: int) -> Finished:
        self._variant += 1
        return self._requests.send(self._requests.text(prompt_tokens, self._variant), answer_tokens)


def spread(values: list[float]) -> dict[str, float | int]:
    return {"median": median(values), "min": min(values), "max": max(values), "runs": len(values)}


def as_table(result: dict[str, Any]) -> str:
    """A few lines for people."""
    rows = [("decode", result["decode_tok_s"], "tok/s")]
    rows += [(f"prefill {count}", value, "tok/s") for count, value in result["prefill_tok_s"].items()]
    rows.append(("first token", result["first_token_s"], "s"))
    machine = result["machine"]
    head = f"{result['model']}: {machine['cpu']}, {machine['isa']}, {machine['threads']} threads"
    return "\n".join([head, *(_row(*row) for row in rows)])


def _row(name: str, value: dict[str, Any], unit: str) -> str:
    return f"{name:<14}{value['median']:>9.2f} {unit:<6} ({value['min']:.2f} to {value['max']:.2f})"
