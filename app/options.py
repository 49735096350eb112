"""Flags shared by the commands, and what becomes of them: a `Load`, a `Sampling`, or a clear refusal."""

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ParamSpec, TypeVar

import click

from ebbtide.app.sampling_ranges import RANGES
from ebbtide.app.settings import Settings
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Load, Sampling

P = ParamSpec("P")
R = TypeVar("R")
Decorator = Callable[[Callable[..., R]], Callable[..., R]]

# Flags of which only the default works in this version are hidden, and refused by name when they are given.
_SIZE = re.compile(r"(?i)(\d+(\.\d+)?|\d{1,3}(,\d{3})+)\s*([kmgt]?(i?b)?|%)")
NOT_YET_HINT = "Leave the flag out; `ebbtide COMMAND --help` lists what works."


def is_size(text: str) -> bool:
    """Whether it looks like a budget; whether it is enough is for the engine to say."""
    return text == "auto" or _SIZE.fullmatch(text.strip()) is not None


def check_size(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """`300MiB`, `8GB`, `40%` or `auto`; the engine does the arithmetic. Raises BadParameter."""
    if value is None or is_size(value):
        return value
    raise click.BadParameter(f"{value!r} is not a size; write 300MiB, 8GB, 40% or auto.")


@dataclass(frozen=True)
class EngineFlags:
    """The flags about loading; None = not given, so settings decide."""

    budget: str | None = None
    ctx: int | None = None
    quality: str = "exact"
    kv: str = "bf16"
    threads: int | None = None
    isa: str | None = None
    device: str | None = None
    policy: str | None = None
    miss: str = "fetch"
    prefetch: bool = False
    resize: str | None = None
    kv_verify: str = "off"
    emulate: str | None = None
    pack: str = "ask"

    def load(self, path: str, settings: Settings, cache_dir: str) -> Load:
        """The command for the engine. Raises UsageError for what this version cannot do."""
        self._refuse_later_steps()
        engine = settings.engine
        return Load(
            path=path,
            budget=self.budget if self.budget is not None else engine.budget,
            ctx=self.ctx if self.ctx is not None else engine.ctx,
            threads=self.threads if self.threads is not None else engine.threads,
            isa=self.isa if self.isa is not None else engine.isa,
            prefetch=self.prefetch,
            policy=self.policy if self.policy is not None else engine.policy,
            quality=self.quality,
            kv=self.kv,
            device=self.device if self.device is not None else engine.device,
            emulate=self.emulate or "",
            pack=self.pack,  # type: ignore[arg-type]  # click has checked the choice
            cache_dir=cache_dir,
        )

    def _refuse_later_steps(self) -> None:
        refuse("--kv", self.kv, {"bf16"})
        refuse("--miss", self.miss, {"fetch"})
        refuse("--resize", self.resize, {None})
        refuse("--kv-verify", self.kv_verify, {"off"})


def refuse(flag: str, value: object, working: set[Any]) -> None:
    """Raise UsageError unless `value` is among those that work in this version."""
    if value not in working:
        shown = flag if value is True else f"{flag} {value}"
        raise UsageError(f"{shown} is not available yet in this version", hint=NOT_YET_HINT)


def model_argument(function: Callable[..., R]) -> Callable[..., R]:
    """`[MODEL]`, also taken from EBBTIDE_MODEL; None = the settings' model."""
    return click.argument("model", required=False, envvar="EBBTIDE_MODEL", metavar="[MODEL]")(function)


_BUDGET = click.option(
    "--budget",
    callback=check_size,
    envvar="EBBTIDE_BUDGET",
    help="Memory for everything: 300MiB, 8GB, 40%, auto.",
)
_THREADS = click.option("--threads", type=click.IntRange(0, 1024), help="Compute threads; 0 = automatic.")
_ISA = click.option(
    "--isa",
    type=click.Choice(["auto", "amx", "avx512", "avxvnni", "avx2", "portable", "reference"]),
    help="Instruction set.",
)
_DEVICE = click.option(
    "--device", metavar="auto|cpu|cuda:N", help="Where it computes: a card, or the processor."
)
_CTX = click.option("--ctx", type=click.IntRange(0), help="Context in tokens; 0 = the model's own.")
_POLICY = click.option("--policy", help="Which expert gives way first: lfru, lru or lfu.")
_PREFETCH = click.option(
    "--prefetch", is_flag=True, help="Read experts on a guess, before a layer has chosen; for comparison."
)
_QUALITY = click.option(
    "--quality",
    type=click.Choice(["exact", "high", "balanced", "fast"]),
    help="What answers may lose while memory is short, so that more experts stay in it: exact is nothing.",
)
_ENGINE_OPTIONS = [
    _BUDGET,
    _CTX,
    _QUALITY,
    click.option("--kv", type=click.Choice(["bf16", "fp8"]), default="bf16", hidden=True),
    _THREADS,
    _ISA,
    _DEVICE,
    _POLICY,
    click.option("--miss", type=click.Choice(["fetch", "cpu", "auto"]), default="fetch", hidden=True),
    _PREFETCH,
    click.option("--resize", type=click.Choice(["pages", "barrier"]), hidden=True),
    click.option(
        "--kv-verify", type=click.Choice(["off", "pre", "full", "content"]), default="off", hidden=True
    ),
    click.option(
        "--emulate",
        metavar="vram=8GB,pcie=12GB/s",
        help="A card as a smaller or slower one, for comparisons.",
    ),
]
_PACK = click.option(
    "--pack",
    type=click.Choice(["yes", "no", "plain"]),
    help="Make a pack if the budget needs one; plain: do without, slower.",
)


_CALIBRATE_OPTIONS = [_BUDGET, _THREADS, _ISA, _POLICY, _PACK]
_BENCH_OPTIONS = [_BUDGET, _CTX, _THREADS, _ISA, _DEVICE, _POLICY, _PREFETCH, _PACK]


def engine_options(function: Callable[..., R]) -> Callable[..., R]:
    """All flags about loading, given to the command as `flags: EngineFlags`."""
    return _gather("flags", EngineFlags, [*_ENGINE_OPTIONS, _PACK])(function)


def quality_option(function: Callable[..., R]) -> Callable[..., R]:
    """`--quality`, for a command with `bench_options` that it means something to."""
    return _QUALITY(function)


def bench_options(function: Callable[..., R]) -> Callable[..., R]:
    """The few flags about loading that `bench` and `eval` have."""
    return _gather("flags", EngineFlags, _BENCH_OPTIONS)(function)


def calibrate_options(function: Callable[..., R]) -> Callable[..., R]:
    """Those of `calibrate`, which the context and the device do not concern."""
    return _gather("flags", EngineFlags, _CALIBRATE_OPTIONS)(function)


@dataclass(frozen=True)
class SamplingFlags:
    """The flags about choosing tokens; None = the settings decide."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None

    def sampling(self, settings: Settings) -> Sampling:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in values.items() if value is not None}
        return Sampling(**{**_as_dict(settings), **given})


def _as_dict(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings.sampling, name) for name in settings.sampling.__struct_fields__}


class Numbers(click.FloatRange):
    """A range of floats that NaN, which is neither below nor above anything, is not in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


def _number(name: str) -> Numbers:
    least, most = RANGES[name]
    return Numbers(float(least), float(most))


def _whole_number(name: str) -> click.IntRange:
    least, most = RANGES[name]
    return click.IntRange(int(least), int(most))


_SAMPLING_OPTIONS = [
    click.option("--temperature", type=_number("temperature"), help="0 = always the likeliest token."),
    click.option("--top-k", type=_whole_number("top_k"), help="Choose among the k likeliest; 0 = all."),
    click.option("--top-p", type=_number("top_p"), help="Choose among the likeliest of this total share."),
    click.option("--min-p", type=_number("min_p"), help="Drop tokens below this share of the likeliest."),
    click.option("--repeat-penalty", type=_number("repeat_penalty"), help="Above 1: less repetition."),
    click.option("--seed", type=_whole_number("seed"), help="Same seed, same answer."),
]


def sampling_options(function: Callable[..., R]) -> Callable[..., R]:
    """All flags about sampling, given to the command as `choice: SamplingFlags`."""
    return _gather("choice", SamplingFlags, _SAMPLING_OPTIONS)(function)


def _gather(parameter: str, kind: type[Any], options: Sequence[Decorator[Any]]) -> Decorator[Any]:
    """Apply `options`, and hand their values to the command as one `kind`."""
    names = {field.name for field in fields(kind)}

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def gathered(*args: Any, **kwargs: Any) -> R:
            values = {name: kwargs.pop(name) for name in list(kwargs) if name in names}
            present = {name: value for name, value in values.items() if value is not None}
            return function(*args, **{parameter: kind(**present)}, **kwargs)

        return functools.reduce(lambda inner, option: option(inner), reversed(options), gathered)

    return decorate
