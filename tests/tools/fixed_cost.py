"""What a token costs beside its bytes: decode time against active bytes, in microseconds per layer.

    python tests/tools/fixed_cost.py [--layers 30] [--threads 2] [--rounds 9] [--tokens 48] [--isa amx]

Random models that differ in the width of their experts alone (rows of 576, 9 heads, 3 of keys, 2 of 4
experts, Q8_0) decode in turns. A straight line through their times, by least squares, has the price of bytes
as its slope; what it has left at no bytes is fixed: norms, RoPE, attention over a short context, router,
waking threads, Python. The smallest model's time is an upper bound that needs no line.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from ebbtide.engine.gguf import open_gguf
from tests.helpers.decoder import Decoder
from tests.helpers.tiny_models import write_tiny

EXPERT_WIDTHS = (32, 256, 512, 1024, 2048)
D_MODEL, EXPERTS, TOP_K, CONTEXT = 576, 4, 2, 512


def active_bytes(path: Path) -> int:
    """Weights that a token reads: without the embedding (one row of it) and experts it is not sent to."""
    file = open_gguf(path)
    total = 0
    for name, tensor in file.tensors.items():
        if name != "token_embd.weight":
            total += tensor.nbytes * TOP_K // EXPERTS if "_exps" in name else tensor.nbytes
    return total


class Line(NamedTuple):
    """seconds = fixed + bytes * per_byte."""

    fixed: float
    per_byte: float


def fit(points: Sequence[tuple[int, float]]) -> Line:
    """Least squares, each point weighted by one over its time: equal relative errors count alike."""
    nbytes, seconds = (np.array(values, np.float64) for values in zip(*points, strict=True))
    per_byte, fixed = np.polyfit(nbytes, seconds, 1, w=1 / seconds)
    return Line(float(fixed), float(per_byte))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=48, help="of one model before the next has its turn")
    parser.add_argument("--isa", default="auto")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = [make(Path(folder) / f"{width}.gguf", width, asked.layers) for width in EXPERT_WIDTHS]
        settings: dict[str, Any] = {"ctx": CONTEXT, "threads": asked.threads, "isa": asked.isa, "pack": "no"}
        decoders = [Decoder(path, **settings) for path in models]
        print(f"{decoders[0].runtime.room.isa}, {asked.threads} threads, {asked.layers} layers")
        times = measure(decoders, asked.rounds, asked.tokens)
        report([active_bytes(path) for path in models], asked.layers, times)


def make(path: Path, width: int, layers: int) -> Path:
    print(f"making a model with experts of {width}", file=sys.stderr)
    sizes: dict[str, Any] = {"d_model": D_MODEL, "heads": 9, "kv_heads": 3, "head_dim": 64, "d_ff": width}
    counts: dict[str, Any] = {"layers": layers, "experts": EXPERTS, "top_k": TOP_K, "context": CONTEXT}
    return write_tiny(path, "mixtral", **sizes, **counts)


def measure(decoders: Sequence[Decoder], rounds: int, tokens: int) -> list[list[float]]:
    """Seconds per token of each model, one figure a round."""
    for decoder in decoders:
        decoder.seconds(tokens)
    times: list[list[float]] = [[] for _ in decoders]
    for _ in range(rounds):
        for decoder, into in zip(decoders, times, strict=True):
            into.append(decoder.seconds(tokens) / tokens)
    return times


def report(sizes: Sequence[int], layers: int, times: Sequence[Sequence[float]]) -> None:
    print(f"medians (least to most) of {len(times[0])} rounds")
    for width, nbytes, some in zip(EXPERT_WIDTHS, sizes, times, strict=True):
        low, middle, high = (value * 1e6 for value in (min(some), median(some), max(some)))
        print(
            f"experts of {width:5d}: {nbytes / 1e6:7.1f} MB a token "
            f"{middle:8.0f} us ({low:.0f} to {high:.0f}), {middle / layers:6.1f} us a layer"
        )
    for name, of in (("medians", median), ("least", min)):
        line = fit([(nbytes, of(some)) for nbytes, some in zip(sizes, times, strict=True)])
        fixed = line.fixed * 1e6
        print(
            f"line through the {name}: {fixed:.0f} us a token are fixed, {fixed / layers:.1f} us a layer; "
            f"bytes at {1e-9 / line.per_byte:.1f} GB/s"
        )


if __name__ == "__main__":
    main()
