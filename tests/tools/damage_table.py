"""What every width of a model's experts costs, in dB of weights above their error, and the time it takes.

    python tests/tools/damage_table.py MODEL [--threads 2] [--isa amx] [--billions 29] [--json]

MODEL is a GGUF file or a pack. For each format, over all its expert matrices together: what the kernels
compute now (the middle of missing bits, or the format's table); tables of weighed means, one for each bank
(gate, up or down of one layer's experts) and width; one table for the whole model; and the first rounded to
what bytes can hold: entries in steps of 1/2, 1/4 and finer of a code, 8 bits over the codes' range.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from ebbtide.engine.precision.damage import measure_all
from ebbtide.engine.weights.open import open_weights
from ebbtide.kernels.code_mass import F64, CodeMass, code_values
from ebbtide.kernels.dispatch import IsaChoice

PAGE_BYTES = 36 << 10
"""For plain files; it changes nothing but reads."""
Bank = tuple[int, str, int]
"""(layer, kind, view)."""
Entries = Callable[[CodeMass, int], F64]


class Work(NamedTuple):
    """What was measured, and for how long."""

    blocks: int
    weights: int
    seconds: float


def banks_of(path: Path, threads: int, isa: IsaChoice) -> tuple[dict[Bank, CodeMass], Work]:
    """Masses of every bank, and what it took."""
    banks: dict[Bank, CodeMass] = {}
    started, blocks, weights = time.perf_counter(), 0, 0
    source = open_weights(path, page_bytes=PAGE_BYTES)
    for block in measure_all(source, None, lambda done, total: None, threads=threads, isa=isa):
        layout = source.expert_layout(block.layer, block.kind)
        blocks, weights = blocks + 1, weights + layout.rows * layout.cols
        for view, mass in enumerate(block.masses):
            at = block.layer, block.kind, view
            banks[at] = banks[at] + mass if at in banks else mass
    source.close()
    return banks, Work(blocks, weights, time.perf_counter() - started)


def rounded(unit: float) -> Entries:
    """Means in steps of `unit`, as far as codes of these planes reach."""

    def entries(mass: CodeMass, width: int) -> F64:
        first, last = code_values(mass.format)[[0, -1]]
        steps: F64 = np.clip(np.rint(mass.means(width) / unit) * unit, first, last)
        return steps

    return entries


def books(model: CodeMass) -> dict[str, Entries]:
    """The ways to fill a table, the kernels' own first; `model` is the sum of all banks."""
    finest = 2.0 ** (model.format.planes - 8)
    units = [unit for unit in (1.0, 0.5, 0.25, 0.125, 0.0625) if unit >= finest]
    names = {unit: "1" if unit == 1 else f"1/{round(1 / unit)}" for unit in units}
    plain: dict[str, Entries] = {
        "now": lambda mass, width: code_values(mass.format, width),
        "means": lambda mass, width: mass.means(width),
        "one table": lambda mass, width: model.means(width),
    }
    return plain | {f"means in {names[unit]}": rounded(unit) for unit in units}


def decibel(signal: float, error: float) -> float | None:
    return round(10 * float(np.log10(signal / error)), 2) if error > 0 and signal > 0 else None


def table(masses: Sequence[CodeMass]) -> dict[int, dict[str, float | None]]:
    """Width -> book -> dB, over matrices of one format."""
    model = reduce(add, masses)
    return {
        width: {
            name: decibel(model.energy, sum(mass.error(book(mass, width)) for mass in masses))
            for name, book in books(model).items()
        }
        for width in range(model.format.planes - 1, 0, -1)
    }


def report(path: Path, options: argparse.Namespace) -> dict[str, object]:
    banks, work = banks_of(path, options.threads, options.isa)
    if not banks:
        raise SystemExit(f"{path.name} has no experts")
    of_format: dict[str, list[CodeMass]] = {}
    for mass in banks.values():
        of_format.setdefault(mass.format.name, []).append(mass)
    return {
        "blocks": work.blocks,
        "weights": work.weights,
        "seconds": round(work.seconds, 2),
        "billions": options.billions,
        "seconds_for_billions": round(work.seconds / work.weights * options.billions * 1e9, 1),
        "decibel": {name: table(masses) for name, masses in sorted(of_format.items())},
    }


def show(result: dict[str, object]) -> None:
    print(f"{result['blocks']} blocks, {result['weights']:,} weights in {result['seconds']} s")
    print(f"{result['billions']} thousand million weights at that rate: {result['seconds_for_billions']} s")
    decibels = result["decibel"]
    assert isinstance(decibels, dict)
    for name, widths in decibels.items():
        print(f"\n{name:10}" + "".join(f"{book:>15}" for book in next(iter(widths.values()))))
        for width, values in widths.items():
            shown = ("exact" if value is None else f"{value:.2f}" for value in values.values())
            print(f"{width:>10}" + "".join(f"{value:>15}" for value in shown))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", default="auto", choices=get_args(IsaChoice))
    parser.add_argument(
        "--billions", type=float, default=29, help="of weights to tell the time of (29: Qwen3-30B-A3B)"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = report(options.model, options)
    if options.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
