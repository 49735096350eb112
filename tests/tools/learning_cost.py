"""What gathering from chats costs: reading prompts with it and without, in turns, on the same text.

    python tests/tools/learning_cost.py MODEL.gguf [--pairs 15] [--chunks 8] [--every 8] [--threads 2]

A turn is a prompt of so many chunks from an empty context; one chunk in `every` is looked at. Who goes first
alternates. The last line has the median of the pairs' ratios and its 95 % interval. `--chunks 1 --every 1`
tells most surely what a chunk that is looked at costs: of a chat it is one in eight.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.app.compare.statistics import median_interval
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Forward, Pass
from ebbtide.engine.precision.calibration_file import model_key
from ebbtide.engine.precision.gathering import SampledMoments
from ebbtide.engine.precision.learning import Learner
from ebbtide.engine.precision.library_text import library_texts
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import load


def seconds_of(
    runtime: Runtime, reads: Pass | Learner, ids: "np.ndarray[tuple[int], np.dtype[np.int32]]"
) -> float:
    """Read `ids` from an empty context, as an answer's prefill does."""
    most, began = runtime.chunk_tokens, time.perf_counter()
    sequence = runtime.pool.new_sequence()
    try:
        for start in range(0, ids.size, most):
            chunk = ids[start : start + most]
            runtime.pool.extend(sequence, chunk.size, runtime.fast.provenance(Lane.PREFILL))
            reads.hidden(
                chunk, start, runtime.kv_view(sequence), lambda: False, int(start + most >= ids.size)
            )
    finally:
        runtime.pool.release(sequence)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--every", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", default="100%")
    asked = parser.parse_args()
    command = load(asked.model, budget=asked.limit, ctx=4096, threads=asked.threads)
    runtime = Runtime.load(command, lambda *_: None)
    assert isinstance(runtime.forward, Forward)
    text = "\n".join(part for parts in library_texts(held_out=True) for part in parts)
    ids = np.asarray(runtime.tokenizer.encode(text[:80_000], add_bos=True, parse_special=False), np.int32)
    ids = ids[: asked.chunks * runtime.chunk_tokens]
    learner = Learner(runtime.forward, Path("unused"), model_key(runtime.source))
    learner._samples = SampledMoments(runtime.spec, asked.every)
    arms: tuple[Pass | Learner, ...] = runtime.forward, learner
    for reads in arms:
        seconds_of(runtime, reads, ids)
    pairs: list[tuple[float, float]] = []
    for number in range(asked.pairs):
        order = (0, 1) if number % 2 else (1, 0)
        times = {arm: seconds_of(runtime, arms[arm], ids) for arm in order}
        pairs.append((times[0], times[1]))
    for name, at in (("without", 0), ("with", 1)):
        speeds = [ids.size / pair[at] for pair in pairs]
        print(f"{name:8} {median(speeds):8.1f} tokens/s ({min(speeds):.1f} to {max(speeds):.1f})")
    longer = [pair[1] / pair[0] - 1 for pair in pairs]
    least, most = median_interval(longer)
    spread = f"{median(longer):+.2%} time (95 %: {least:+.2%} to {most:+.2%})"
    print(f"{ids.size} tokens, {asked.pairs} pairs: {spread}")
    runtime.close()


if __name__ == "__main__":
    main()
