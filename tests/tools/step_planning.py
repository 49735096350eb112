"""How much time the keeper of widths adds to a step while a conversation grows.

    python tests/tools/step_planning.py [--layers 48] [--experts 128] [--top 8] [--tokens 1024]

Twice as many blocks as experts (12,288 with the defaults, as many as Qwen3-30B-A3B has), with memory for 70 %
of their pages less what KV takes: widths fall about every 64 tokens, and are spread anew now and then. The
model is a few matrix products a layer on one thread, and a commit is a copy. Told are, in milliseconds on the
step thread: what `look` and the routes of a token take (the time added to a step; `own` is the processor's
time in it, which other programs hardly change), and whole steps, which a planner's thread may hold up too.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.engine.memory.tables import LayerLayouts
from ebbtide.engine.precision.keeper import WidthKeeper
from ebbtide.engine.precision.known_damage import Known
from ebbtide.engine.precision.quality import QUALITIES
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.precision.steward import Steward
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from tests.tools.width_plan_speed import random_blocks

PAGE_BYTES = 64 << 10
BLOCK_TOKENS = 16
SHARE = 0.7
PRODUCTS = 4


def layouts(layers: int) -> list[LayerLayouts]:
    """Experts of Qwen3-30B-A3B's size, in Q8_0."""
    up, down = (MatrixShape(*shape, FORMATS["Q8_0"]) for shape in ((768, 2048), (2048, 768)))
    pair = LayerLayouts(
        block_layout([up, up], page_bytes=PAGE_BYTES, floor_planes=2),
        block_layout([down], page_bytes=PAGE_BYTES, floor_planes=2),
    )
    return [pair] * layers


class Memory:
    """What the keeper asks of memory; a change of widths is over at once."""

    def __init__(self, layers: int, experts: int) -> None:
        self.layers, self.length = layers, 0
        widths = np.full((layers, 2, experts), 8, np.uint8)
        self.table: Any = SimpleNamespace(
            layers=layers, experts=experts, layouts=layouts(layers), committed=widths, reach=widths, most=8
        )
        self.pager: Any = SimpleNamespace(change=None, advance=lambda: None, set_widths=self._set)
        self.pool = SimpleNamespace(layers=layers, tokens_per_block=BLOCK_TOKENS)
        self.arena = SimpleNamespace(owned_pages=lambda tenant: self.kv_pages, page_bytes=PAGE_BYTES)
        self.tenancy = SimpleNamespace(experts_share=self._share)
        self.pages = 0
        self.changes = 0

    @property
    def kv_pages(self) -> int:
        return self.layers * -(-self.length // BLOCK_TOKENS)

    def _share(self, growth: int = 0) -> int:
        return self.pages - self.kv_pages - growth

    def _set(self, widths: Any) -> None:
        self.table.committed = self.table.reach = widths.copy()
        self.changes += 1


def routed(layers: int, experts: int, top: int) -> Callable[[], tuple[Any, Any]]:
    """Tokens that prefer some experts of each layer."""
    rng = np.random.default_rng(1)
    liking = rng.lognormal(0, 1, (layers, 1, experts))
    gates = np.full((layers, 1, top), 1 / top, np.float32)

    def token() -> tuple[Any, Any]:
        order = (rng.random(liking.shape) / liking).argsort(axis=2)
        return order[..., :top].astype(np.int32), gates

    return token


def step_times(layers: int, experts: int, top: int, tokens: int) -> tuple[Any, int]:
    """Milliseconds f64[3, tokens] of each step: added, the processor's in it, and of all; how often widths
    changed.
    """
    memory = Memory(layers, experts)
    _, damage = random_blocks(np.random.default_rng(0), layers * 2 * experts)
    known = Known(damage.reshape(layers, 2, experts, -1), np.ones((layers, experts)))
    routes = Routes(layers, experts, known.mass)
    steward = Steward(memory.table, known, QUALITIES["fast"])
    memory.pages = int(SHARE * steward.whole_pages)
    costs: Any = SimpleNamespace(average_bits=lambda widths: float(widths.mean()))
    fast: Any = memory
    keeper = WidthKeeper(fast, steward, routes, costs, lambda decision: None, lambda: False)
    keeper.begin()
    token, times = routed(layers, experts, top), []
    matrix = np.ones((128, 128), np.float32)
    product = matrix.copy()
    for _ in range(tokens):
        chosen = token()
        start, own_start = time.perf_counter(), time.thread_time()
        keeper.look(memory.length, 1)
        routes.token(*chosen)
        added, own = time.perf_counter() - start, time.thread_time() - own_start
        for _ in range(PRODUCTS * layers):
            np.matmul(matrix, matrix, out=product)
        times.append((added, own, time.perf_counter() - start))
        memory.length += 1
    keeper.close()
    return np.array(times).T * 1e3, memory.changes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--top", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=1024)
    args = parser.parse_args()
    times, changes = step_times(args.layers, args.experts, args.top, args.tokens)
    print(f"{args.layers * 2 * args.experts:,} blocks, {args.tokens} tokens, {changes} changes of widths, ms")
    print("                 added       own     whole")
    for name, share in (("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("longest", 1.0)):
        print(f"  {name:10}", *(f"{value:9.3f}" for value in np.quantile(times, share, axis=1)))
    print(f"  {'mean':10}", *(f"{value:9.3f}" for value in times.mean(axis=1)))


if __name__ == "__main__":
    main()
