"""The object that `compare --json` prints, and that the tables are made from."""

import importlib.metadata
from typing import Any

from ebbtide import __version__
from ebbtide.app.commands.bench import spread
from ebbtide.app.commands.run import memory_object
from ebbtide.app.compare.contenders import Ebbtide, LlamaCpp
from ebbtide.app.compare.sample import DECODE, Sample, Samples
from ebbtide.app.compare.statistics import Ratio, has_interval, ratio_of
from ebbtide.engine.messages import Memory

FIRST_TOKEN_PROMPT = "512"
"""The prompt whose first token is reported, where it is among those that were measured."""
INTERVAL, RANGE = "95%", "least_to_most"
"""Kinds of interval: that of the median, or, with too few pairs for one, the pairs' own least and most."""


def ebbtide_object(contender: Ebbtide, samples: Samples) -> dict[str, Any]:
    loaded, memory = contender.loaded, memory_object(contender.memory)
    return {
        **figures(samples),
        "memory": memory | {"process_peak_bytes": contender.process_peak_bytes},
        "configuration": {
            "name": "exact",
            "version": __version__,
            "isa": loaded.isa,
            "threads": loaded.threads,
            "ctx": loaded.ctx,
            "budget_bytes": contender.memory.budget_bytes,
        },
        "failures": [],
    }


def llama_object(contender: LlamaCpp, samples: Samples, threads: int) -> dict[str, Any]:
    """Figures are null when no configuration worked, and of the memory all that llama.cpp does not say."""
    configuration = contender.configuration
    unknown_memory = dict.fromkeys(memory_object(Memory()))
    described = None
    if configuration is not None:
        described = {
            "name": configuration.name,
            "parameters": configuration.parameters,
            "threads": threads,
            **contender.described,
        }
    return {
        **figures(samples),
        "memory": unknown_memory | {"process_peak_bytes": contender.process_peak_bytes or None},
        "version": llama_version(),
        "configuration": described,
        "failures": contender.failures,
    }


def llama_version() -> str | None:
    try:
        return importlib.metadata.version("llama-cpp-python")
    except importlib.metadata.PackageNotFoundError:
        return None


def figures(samples: Samples) -> dict[str, Any]:
    """The measured part of a `bench` object; null where nothing was measured."""
    if not samples:
        return {"decode_tok_s": None, "prefill_tok_s": None, "first_token_s": None}
    return {
        "decode_tok_s": spread([sample.decode_tok_s for sample in samples[DECODE]]),
        "prefill_tok_s": {
            count: spread([sample.prefill_tok_s for sample in samples[count]]) for count in lengths(samples)
        },
        "first_token_s": spread([sample.first_token_s for sample in first_tokens(samples)]),
    }


def lengths(samples: Samples) -> list[str]:
    return [measure for measure in samples if measure != DECODE]


def first_token_length(samples: Samples) -> str:
    """The prompt of 512 tokens, or the longest."""
    return FIRST_TOKEN_PROMPT if FIRST_TOKEN_PROMPT in samples else max(lengths(samples), key=int)


def first_tokens(samples: Samples) -> list[Sample]:
    return samples[first_token_length(samples)]


def speeds(samples: Samples) -> dict[str, list[float]]:
    """Tokens a second of every run, by the name that tables give the measure."""
    prefill = {
        f"prefill {count}": [sample.prefill_tok_s for sample in samples[count]] for count in lengths(samples)
    }
    return {DECODE: [sample.decode_tok_s for sample in samples.get(DECODE, [])], **prefill}


def ratios(ours: Samples, theirs: Samples) -> dict[str, Any]:
    """`NAME_ratio` and `NAME_ratio_interval`; null where there is none. All intervals are of one kind."""
    if not theirs:
        theirs = {measure: [] for measure in ours}
    decode = ratio_of(*([sample.decode_tok_s for sample in side[DECODE]] for side in (ours, theirs)))
    prefill = {
        count: ratio_of(*([sample.prefill_tok_s for sample in side[count]] for side in (ours, theirs)))
        for count in lengths(ours)
    }
    first = ratio_of(*([sample.first_token_s for sample in first_tokens(side)] for side in (ours, theirs)))
    return {
        "decode_ratio": decode and decode.median,
        "prefill_ratio": {count: ratio and ratio.median for count, ratio in prefill.items()},
        "first_token_ratio": first and first.median,
        "decode_ratio_interval": _interval(decode),
        "prefill_ratio_interval": {count: _interval(ratio) for count, ratio in prefill.items()},
        "first_token_ratio_interval": _interval(first),
        "interval_kind": INTERVAL if has_interval(len(ours[DECODE])) else RANGE,
        "first_token_prompt": int(first_token_length(ours)),
    }


def _interval(ratio: Ratio | None) -> list[float] | None:
    return None if ratio is None else [ratio.low, ratio.high]


def prompt_tokens(ours: Samples, theirs: Samples) -> dict[str, dict[str, int]]:
    """How many tokens each contender read for each measure."""
    return {
        measure: {
            name: side[measure][0].prompt_tokens
            for name, side in (("ebbtide", ours), ("llama_cpp", theirs))
            if side
        }
        for measure in ours
    }
