"""How much of the disk's rate paging reaches: decoding at budgets, and plain direct reads between.

    python tests/tools/paging_rate.py MODEL [--budgets 25%,50%] [--tokens 48] [--rounds 5] [--threads 2]
        [--policy lfru] [--prefetch]

In turns: a model decodes greedily at a budget, and as many threads as the pager has read random pieces of
the same pack, as large as experts, with direct I/O, and do nothing else. Told per budget, as medians: tokens
a second, bytes read a token, the hit rate, and the rate of reading as a share of the plain one, over all the
time and over the time in which a read was under way. The rest of the time there was nothing to read, unless
the next layer's experts are guessed (`--prefetch`; then how often that was right is told, too).
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from ebbtide.app.paths import find_paths
from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.memory.mover import READERS, Moves, Transfer
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.reads import BlockRead
from ebbtide.engine.memory.trickle import Trickle
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.engine.weights.source import KINDS
from tests.helpers.decoder import Decoder

PROMPT = (Path(__file__).read_text("utf-8") + "\n")[:1500]
PAGE = 4096
PLAIN_BYTES = 256 << 20
"""Read at a time to see what the disk gives."""


class Clocked:
    """A mover that knows for how long reads were under way."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self.seconds = 0.0
        self._open, self._since = 0, 0.0

    def start(self, reads: Sequence[BlockRead]) -> Transfer:
        if not self._open:
            self._since = time.perf_counter()
        self._open += 1
        return _Clocked(self, self._moves.start(reads))

    def trickle(self, reads: Sequence[BlockRead]) -> Trickle:
        return self._moves.trickle(reads)

    def ended(self) -> None:
        self._open -= 1
        if not self._open:
            self.seconds += time.perf_counter() - self._since

    def close(self) -> None:
        self._moves.close()


class _Clocked:
    def __init__(self, clock: Clocked, transfer: Transfer) -> None:
        self._clock, self._transfer = clock, transfer

    def wait(self) -> int:
        read = self._transfer.wait()
        self._clock.ended()
        return read

    def settle(self) -> None:
        self._transfer.settle()
        self._clock.ended()


class Sample(NamedTuple):
    """Of one round: the model's tokens, and the disk alone."""

    tokens_per_s: float
    bytes_per_token: float
    hit_rate: float
    reading_share: float
    """Of the time, a read was under way."""
    rate: float
    """Bytes read a second, over all the time."""
    plain_rate: float
    guessed: int
    """Experts."""
    guessed_right: int


def plain_rate(source: PackSource, rng: np.random.Generator) -> float:
    """Bytes a second of pieces of an expert's size anywhere in the pack, read by as many threads as a layer's
    misses are. Nothing is checked, and the memory is there before.
    """
    threads = READERS + 1
    size = max(source.expert_layout(0, kind).span_bytes for kind in KINDS) // PAGE * PAGE
    count = max(1, PLAIN_BYTES // size // threads)
    wanted = rng.integers(0, (source.file.size_bytes - size) // PAGE, (threads, count)) * PAGE
    memory = anonymous(size * threads, huge_pages=False)
    memory[:] = 0

    def read(thread: int) -> int:
        target = (memory.ctypes.data + thread * size, size)
        return sum(source.reader.scatter(offset, [target]) for offset in wanted[thread].tolist())

    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        total = sum(pool.map(read, range(threads)))
        return total / (time.perf_counter() - began)


def clocked(pager: Pager) -> Clocked:
    clock = Clocked(pager._mover)
    pager._mover = clock
    return clock


def sample(decoder: Decoder, clock: Clocked, tokens: int, rng: np.random.Generator) -> Sample:
    pager, source = decoder.runtime.pager, decoder.runtime.source
    assert pager is not None and isinstance(source, PackSource)
    pager.reset_counters()
    clock.seconds = 0.0
    seconds = decoder.seconds(tokens)
    return Sample(
        tokens / seconds,
        pager.bytes_paged_in / tokens,
        pager.hit_rate,
        clock.seconds / seconds,
        pager.bytes_paged_in / seconds,
        plain_rate(source, rng),
        pager.trust.made,
        pager.trust.right,
    )


def report(budget: str, samples: Sequence[Sample]) -> None:
    middle = Sample(*(median(values) for values in zip(*samples, strict=True)))
    of_all = median(sample.rate / sample.plain_rate for sample in samples)
    under_way = median(sample.rate / sample.reading_share / sample.plain_rate for sample in samples)
    speeds = [sample.tokens_per_s for sample in samples]
    print(
        f"{budget:>5}: {middle.tokens_per_s:.1f} tok/s ({min(speeds):.1f} to {max(speeds):.1f}), "
        f"{middle.bytes_per_token / 1e6:.0f} MB a token, hit rate {middle.hit_rate:.1%}\n"
        f"       reads {middle.rate / 1e9:.2f} GB/s, plain {middle.plain_rate / 1e9:.2f} GB/s: {of_all:.0%} "
        f"over all the time, {under_way:.0%} while reads are under way ({middle.reading_share:.0%} of it)"
    )
    if guessed := sum(sample.guessed for sample in samples):
        right = sum(sample.guessed_right for sample in samples)
        print(f"       {guessed} experts were guessed, {right / guessed:.0%} of them right")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--budgets", default="25%,50%", help="shares of the experts, or sizes")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", default="lfru")
    parser.add_argument("--prefetch", action="store_true", help="read the next layer's experts on a guess")
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    for budget in asked.budgets.split(","):
        cache = str(find_paths().cache)
        settings = {"ctx": 1024, "threads": asked.threads, "cache_dir": cache}
        settings |= {"policy": asked.policy, "prefetch": asked.prefetch}
        decoder = Decoder(asked.model, PROMPT, budget=budget, **settings)
        assert decoder.runtime.pager is not None, "a model without experts pages nothing"
        clock = clocked(decoder.runtime.pager)
        decoder.seconds(asked.tokens)
        report(budget, [sample(decoder, clock, asked.tokens, rng) for _ in range(asked.rounds)])
        decoder.close()


if __name__ == "__main__":
    main()
