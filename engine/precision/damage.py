"""What every width of an expert block costs: the error of its output, as far as weights and inputs tell it.

    s(b) = sum over the block's weights of E[x_j^2] * (w - w_b)^2,  w_b = what the kernels compute at width b

Blocks are read whole, one behind the other in the order of the file, while the one before is measured.
"""

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.weights.book_wish import InputMoments
from ebbtide.engine.weights.codes import F32, U8
from ebbtide.engine.weights.source import KINDS, Kind, WeightSource
from ebbtide.kernels.code_mass import F64, CodeMass
from ebbtide.kernels.dispatch import IsaChoice, chosen_isa
from ebbtide.kernels.layout import MAX_PLANES, BlockLayout
from ebbtide.kernels.ops import HUGE_PAGE_BYTES, BlockTable, Pages

Progress = Callable[[int, int], None]
"""(blocks done, blocks in all). What it raises ends the work; nothing is left behind."""
Measure = Callable[[BlockTable, int, F32 | None], list[CodeMass]]
"""`DamageOps.code_mass`, or the reference where the compiled library is missing."""


class Measured(NamedTuple):
    """A block and how much lies at each code of each of its matrices."""

    layer: int
    kind: Kind
    expert: int
    masses: list[CodeMass]


class _Place(NamedTuple):
    layer: int
    kind: Kind
    expert: int


def block_damage(source: WeightSource, layer: int, kind: Kind, expert: int, moments: F32 | None) -> F64:
    """f64[planes + 1]: the error s(b) of widths b = 0 .. planes.

    Entry 0 is with no planes at all (w_0 = 0: the expert left out), entry `planes` is 0. `moments` f32[K];
    None = 1, which gives the error of the weights alone. Raises ModelError where the block cannot be read,
    KernelError for moments of another length, infinite or negative ones.
    """
    layout = source.expert_layout(layer, kind)
    memory = anonymous(layout.span_bytes)
    table = _read(source, _Place(layer, kind, expert), memory)
    with _measure("auto", 1) as measure:
        return damage_of(measure(table, 0, moments))


def all_damage(
    source: WeightSource, moments: InputMoments | None, progress: Progress, *, threads: int = 1
) -> F32:
    """f32[layers, 2, experts, 9]: `block_damage` of every block, kinds in the order of `KINDS`.

    Widths above a block's planes repeat 0. `threads` compute, one more reads; the result has the same bits
    with any number of them. Raises as `block_damage`, and what `progress` raises.
    """
    spec = source.spec
    damage: F32 = np.zeros((spec.layers, len(KINDS), spec.experts, MAX_PLANES + 1), np.float32)
    with closing(measure_all(source, moments, progress, threads=threads)) as blocks:
        for block in blocks:
            costs = damage_of(block.masses)
            damage[block.layer, KINDS.index(block.kind), block.expert, : len(costs)] = costs
    return damage


def damage_of(masses: list[CodeMass]) -> F64:
    """f64[planes + 1] of a block from its matrices; one with fewer planes is whole from its last one on."""
    planes = max(one.format.planes for one in masses)
    damage = np.zeros(planes + 1)
    for one in masses:
        damage[: one.format.planes + 1] += one.damage()
    return damage


def measure_all(
    source: WeightSource,
    moments: InputMoments | None,
    progress: Progress,
    *,
    threads: int = 1,
    isa: IsaChoice = "auto",
) -> Generator[Measured, None, None]:
    """Every expert block, layer by layer, kind by kind. Holds two blocks in memory at a time.

    Close it to end early. Raises as `all_damage`.
    """
    places = _places(source)
    with _measure(isa, threads) as measure, closing(_tables(source, places)) as tables:
        for done, (place, table) in enumerate(zip(places, tables, strict=True)):
            progress(done, len(places))
            yield Measured(*place, measure(table, 0, _moments_of(moments, place)))
    progress(len(places), len(places))


def _places(source: WeightSource) -> list[_Place]:
    spec = source.spec
    layers = range(spec.layers if spec.experts else 0)
    return [_Place(at, kind, expert) for at in layers for kind in KINDS for expert in range(spec.experts)]


def _moments_of(moments: InputMoments | None, place: _Place) -> F32 | None:
    if moments is None:
        return None
    rows: F32 = moments.gate_up if place.kind == "gate_up" else moments.down
    return np.ascontiguousarray(rows[place.layer, place.expert])


def _tables(source: WeightSource, places: list[_Place]) -> Generator[BlockTable, None, None]:
    """The blocks in memory, each until the one behind it is asked for; that one is read meanwhile."""
    if not places:
        return
    most = max(source.expert_layout(place.layer, place.kind).span_bytes for place in places)
    buffers = [anonymous(most), anonymous(most)]
    with ThreadPoolExecutor(1, "damage-reader") as reader:

        def begin(number: int) -> Future[BlockTable]:
            return reader.submit(_read, source, places[number], buffers[number % 2])

        coming = begin(0)
        for number in range(len(places)):
            table = coming.result()
            if number + 1 < len(places):
                coming = begin(number + 1)
            yield table


def _read(source: WeightSource, place: _Place, memory: U8) -> BlockTable:
    """A whole block at the start of `memory`, which the table keeps alive."""
    layout = source.expert_layout(place.layer, place.kind)
    last = len(layout.extent_ends) - 1
    target = (memory.ctypes.data, layout.span_bytes)
    source.read_expert(place.layer, place.expert, place.kind, 0, last, [target])
    return _in_one_piece(layout, memory)


def _in_one_piece(layout: BlockLayout, memory: U8) -> BlockTable:
    pages = Pages(np.array([memory.ctypes.data], np.uint64), 1, HUGE_PAGE_BYTES)
    table = np.zeros((1, layout.page_count), np.int32)
    return BlockTable(layout, pages, table, np.array([layout.planes], np.uint8), {"memory": memory})


@contextmanager
def _measure(isa: IsaChoice, threads: int) -> Iterator[Measure]:
    chosen = chosen_isa(isa)
    if chosen == "reference":
        from ebbtide.kernels.reference.damage import code_mass

        yield code_mass
        return
    from ebbtide.kernels.cpu.damage_ops import DamageOps

    ops = DamageOps(chosen, threads)
    try:
        yield ops.code_mass
    finally:
        ops.close()
