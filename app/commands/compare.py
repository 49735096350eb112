"""`ebbtide compare`: the race with llama.cpp on one file, for anyone to rerun."""

import json
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

import click
import msgspec

from ebbtide.app.commands.bench import parse_counts
from ebbtide.app.commands.loading import prepare_load
from ebbtide.app.compare.comparison import Comparison
from ebbtide.app.compare.tables import as_markdown, as_text
from ebbtide.app.console import tell
from ebbtide.app.context import AppContext
from ebbtide.app.folded import columns_of
from ebbtide.app.options import EngineFlags, bench_options, model_argument, refuse
from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.budget import parse_bytes

NOT_GIVEN = EngineFlags().pack
BASELINE = "llama-cpp-python==0.3.36"
"""As the extra `baseline` has it."""
INSTALL_HINT = (
    f"Install it with: {shlex.quote(sys.executable)} -m pip install {BASELINE} "
    "(it is compiled, which takes some minutes)."
)


class MemoryLimit(NamedTuple):
    nbytes: int
    typed: str


def parse_limit(context: click.Context, parameter: click.Parameter, value: str | None) -> MemoryLimit | None:
    """`8GB`. Raises BadParameter."""
    if value is None:
        return None
    try:
        limit = MemoryLimit(parse_bytes(value), value)
    except UsageError as error:
        raise click.BadParameter(f"{value!r} is not a size; write 2500MiB or 8GB.") from error
    if limit.nbytes == 0:
        raise click.BadParameter("a limit of 0 bytes leaves nothing to work with.")
    return limit


@click.command("compare", short_help="Race with llama.cpp on the same file.")
@model_argument
@click.option("--width", type=int, hidden=True)
@click.option(
    "--prefill", callback=parse_counts, default="128,512", show_default=True, help="Prompt lengths in tokens."
)
@click.option(
    "--decode", type=click.IntRange(2), default=64, show_default=True, help="Answer length in tokens."
)
@click.option("--runs", type=click.IntRange(1), default=5, show_default=True, help="Pairs of runs.")
@click.option(
    "--memory-limit",
    callback=parse_limit,
    metavar="SIZE",
    help="Memory for each contender, such as 2500MiB or 8GB (Linux cgroups).",
)
@click.option("--markdown", is_flag=True, help="Print a table to paste.")
@click.option("--json", "as_json", is_flag=True)
@bench_options
@click.pass_obj
def compare(
    context: AppContext,
    model: str | None,
    width: int | None,
    prefill: list[int],
    decode: int,
    runs: int,
    memory_limit: MemoryLimit | None,
    markdown: bool,
    as_json: bool,
    flags: EngineFlags,
) -> None:
    """Race with llama.cpp: the same file, prompts, threads, context and memory limit, in interleaved pairs.

    Each contender has its own process, and one computes at a time. llama.cpp runs in the strongest of its
    configurations that works here.
    """
    refuse("--width", width, {None})
    if markdown and as_json:
        raise UsageError("--markdown and --json are two ways to print one result", hint="Give one of them.")
    if not is_installed():
        raise UsageError("llama.cpp is not installed, and there is no race without it", hint=INSTALL_HINT)
    load = prepare_load(context, model, flags)
    if flags.device is None:
        load = msgspec.structs.replace(load, device="cpu")
    command = " ".join(["ebbtide compare", *_arguments(model, prefill, decode, runs, memory_limit, flags)])
    given = flags.budget is not None
    comparison = Comparison(context, load, prefill, decode, runs, budget_given=given)
    result = comparison.run(memory_limit and memory_limit.nbytes) | {"command": command}
    if as_json:
        print(json.dumps(result))
    elif markdown:
        print(as_markdown(result))
    else:
        figures, again = as_text(result, columns_of(sys.stdout)).rsplit("\n", 1)
        tell(figures)
        print(again)  # a command to copy: the terminal breaks it where it likes, and copies one line


def is_installed() -> bool:
    """Whether llama-cpp-python is there; whether it works is found out in its own process."""
    return find_spec("llama_cpp") is not None


def _arguments(
    model: str | None,
    prefill: list[int],
    decode: int,
    runs: int,
    limit: MemoryLimit | None,
    flags: EngineFlags,
) -> Iterator[str]:
    """The command line that races like this again."""
    if model is not None:
        yield shlex.quote(model)
    yield f"--runs {runs} --prefill {','.join(map(str, prefill))} --decode {decode}"
    for name in ("threads", "isa", "budget", "ctx", "device", "policy", "pack"):
        value = getattr(flags, name)
        if value not in (None, NOT_GIVEN):
            yield f"--{name} {shlex.quote(str(value))}"
    if flags.prefetch:
        yield "--prefetch"
    if limit is not None:
        yield f"--memory-limit {shlex.quote(limit.typed)}"
