"""In which order the threads of a compiled Triton kernel add the numbers of its sums.

A sum along an axis adds what one thread has, then what the lanes of a warp have, then what the warps have. So
what decides its bits is which steps along the axis registers, lanes and warps take; how other axes are spread
does not matter. Both of Triton's forms of a layout are read: blocked ones, and linear ones, which list steps.
"""

import re
from math import prod

Steps = dict[str, list[int]]
"""Of registers, lanes and warps: their steps along one axis, in the order of their bits."""


def sum_orders(intermediate: str) -> tuple[str, ...]:
    """One text for each different order among the sums of floats in Triton's GPU intermediate language."""
    named = dict(re.findall(r"^(#\w+) = (#.*)$", intermediate, re.MULTILINE))
    found = set()
    axis = 0
    for line in intermediate.splitlines():
        if begins := re.search(r'"tt\.reduce".*axis = (\d+)', line):
            axis = int(begins[1])
        elif ends := re.search(r"\}\) : \(tensor<([\dx]+)xf32, (.*?)>\) ->", line):
            shape = [int(size) for size in ends[1].split("x")]
            steps = _steps(ends[2], named, shape, axis)
            told = ", ".join(f"{unit} {' '.join(map(str, steps[unit]))}".strip() for unit in steps)
            found.add(f"{shape[axis]}: {told}")
    return tuple(sorted(found))


def _steps(layout: str, named: dict[str, str], shape: list[int], axis: int) -> Steps:
    """Steps along `axis` of a tensor of `shape`."""
    layout = named.get(layout, layout)
    if cut := re.fullmatch(r"#ttg\.slice<\{dim = (\d+), parent = (.*)\}>", layout):
        dim = int(cut[1])
        return _steps(cut[2], named, [*shape[:dim], 1, *shape[dim:]], axis + (axis >= dim))
    if layout.startswith("#ttg.linear"):
        return {unit: _listed(layout, unit, axis) for unit in ("register", "lane", "warp")}
    sizes = {
        unit: int(re.search(rf"{name} = \[([\d, ]+)\]", layout)[1].split(", ")[axis])  # type: ignore[index]
        for unit, name in (("register", "sizePerThread"), ("lane", "threadsPerWarp"), ("warp", "warpsPerCTA"))
    }
    steps: Steps = {}
    step = 1
    for unit, size in sizes.items():
        last = min(step * size, shape[axis])
        steps[unit] = _powers(step, last)
        step = max(step, last)
    steps["register"] += _powers(prod(sizes.values()), shape[axis])
    return steps


def _listed(layout: str, unit: str, axis: int) -> list[int]:
    """What a linear layout says of a unit."""
    bases = re.search(rf"{unit} = \[((?:\[[\d, ]+\](?:, )?)*)\]", layout)
    assert bases, layout
    steps = [int(basis.split(", ")[axis]) for basis in re.findall(r"\[([\d, ]+)\]", bases[1])]
    return [step for step in steps if step]


def _powers(first: int, end: int) -> list[int]:
    """first, 2 first, ... below `end`."""
    return [first << i for i in range(max(0, (end // first).bit_length() - 1))]
