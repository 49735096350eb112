"""How long the planner of widths takes.

    python tests/tools/width_plan_speed.py [--layers 48] [--experts 128] [--top 8] [--runs 25]

Blocks (two an expert: 12,288 with the defaults, as many as Qwen3-30B-A3B has) of eight planes with damages
that fall fourfold a plane, more or less. Told are medians in milliseconds on one thread: hulls of all blocks,
which calibration changes; a list anew and the plan from it, which new weights need; a plan for another target
from a list that is there; plans near current widths, also where these are off the hulls; new bounds for some
blocks; and noting a token's routing, the only part that is in a step's way.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from ebbtide.engine.precision.hull import F64, I64
from ebbtide.engine.precision.routing_mass import RoutingMass, block_weights
from ebbtide.engine.precision.width_plan import WidthPlanner

WIDTHS = 9


def random_blocks(rng: np.random.Generator, blocks: int) -> tuple[I64, F64]:
    """cost i64[blocks, 9] and damage f64[blocks, 9]; the three top planes lie among the scales."""
    pages = rng.integers(4, 7, (blocks, 1)) * np.array([0, 4, 0, 0, 1, 1, 1, 1, 1])
    damage = (
        rng.lognormal(0, 1, (blocks, 1)) * 4.0 ** -np.arange(WIDTHS) * rng.lognormal(0, 0.2, (blocks, WIDTHS))
    )
    damage[:, -1] = 0
    return np.cumsum(pages, axis=1), damage


def median_ms(runs: int, action: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Of `action`; `before` runs untimed ahead of each."""
    times = []
    for _ in range(runs):
        before()
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return median(times) * 1e3


def planner_times(layers: int, experts: int, runs: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    blocks = layers * 2 * experts
    cost, damage = random_blocks(rng, blocks)
    floors, most = np.full(blocks, 2, np.uint8), np.full(blocks, WIDTHS - 1, np.uint8)
    planner = WidthPlanner(cost, damage, floors, most)
    room = planner.whole_pages - planner.floor_pages

    def new_weights() -> None:
        planner.reweigh(block_weights(rng.lognormal(0, 1, (layers, experts)), rng.uniform(0.5, 2.0, layers)))

    def target() -> int:
        return planner.floor_pages + int(rng.uniform(0.2, 0.8) * room)

    def bound_some() -> None:
        planner.bound(floors + (rng.random(blocks) < 0.1), most)

    now = planner.plan(target()).widths
    astray = rng.integers(2, WIDTHS, blocks).astype(np.uint8)
    times = {
        "hulls of all blocks": median_ms(runs, lambda: WidthPlanner(cost, damage, floors, most)),
        "new weights, plan": median_ms(runs, lambda: planner.plan(target()), new_weights),
        "new weights, plan near current": median_ms(runs, lambda: planner.plan(target(), now), new_weights),
        "new target": median_ms(runs, lambda: planner.plan(target())),
        "new target near current": median_ms(runs, lambda: planner.plan(target(), now)),
        "new target near any widths": median_ms(runs, lambda: planner.plan(target(), astray)),
        "weights themselves": median_ms(runs, new_weights),
    }
    return times | {"new bounds for some": median_ms(runs, bound_some)}


def routing_times(layers: int, experts: int, top: int, runs: int) -> dict[str, float]:
    rng = np.random.default_rng(1)
    routing = RoutingMass(layers, experts, 512)
    chosen = rng.random((layers, 1, experts)).argsort(axis=2)[..., :top].astype(np.int32)
    gates = np.full((layers, 1, top), 1 / top, np.float32)
    base = np.full((layers, 2, experts), 3, np.uint8)

    def layer_by_layer() -> None:
        for layer in range(layers):
            routing.note(layer, chosen[layer], gates[layer])

    return {
        "note a token, all layers at once": median_ms(runs, lambda: routing.note_pass(chosen, gates)),
        "note a token, layer by layer": median_ms(runs, layer_by_layer),
        "mass": median_ms(runs, routing.mass),
        "floors": median_ms(runs, lambda: routing.floors(base, 0.5, 1)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--layers", type=int, default=48)
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--top", type=int, default=8)
    parser.add_argument("--runs", type=int, default=25)
    args = parser.parse_args()
    print(f"{args.layers * 2 * args.experts:,} blocks, median of {args.runs} runs, ms")
    times = planner_times(args.layers, args.experts, args.runs)
    times |= routing_times(args.layers, args.experts, args.top, args.runs)
    for name, taken in times.items():
        print(f"  {name:34} {taken:9.3f}")


if __name__ == "__main__":
    main()
