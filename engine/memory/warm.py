"""Filling free expert quotas before the first token, by large sequential reads."""

from collections.abc import Callable, Sequence

from ebbtide.engine.memory.arena import Arena
from ebbtide.engine.memory.fill import Fill
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.tables import WeightPageTable

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_READ_BYTES = 16 << 20


def _chunks(table: WeightPageTable, quotas: Sequence[int], page_bytes: int) -> list[tuple[int, list[int]]]:
    """(layer, experts) to read, in file order, about `_READ_BYTES` each."""
    chunks = []
    for layer, quota in enumerate(quotas):
        resident = table.resident[layer]
        absent = [expert for expert, here in enumerate(resident) if not here]
        wanted = absent[: max(0, quota - resident.count(1))]
        step = max(1, _READ_BYTES // (table.pages_per_expert[layer] * page_bytes))
        chunks += [(layer, wanted[start : start + step]) for start in range(0, len(wanted), step)]
    return chunks


def warm(
    arena: Arena,
    table: WeightPageTable,
    mover: Moves,
    quotas: Sequence[int],
    make_free: Callable[[int], None],
    progress: Progress,
) -> int:
    """Read the first absent experts of each layer until it holds its quota; bytes read.

    `make_free(pages)` sees to it that so many pages are free, at the cost of layers above their quotas. Two
    chunks are under way at a time. Raises what the source or `progress` raises; what was read by then stays.
    """
    chunks = _chunks(table, quotas, arena.page_bytes)
    sizes = [len(experts) * table.pages_per_expert[layer] * arena.page_bytes for layer, experts in chunks]
    total, done, read = sum(sizes), 0, 0
    under_way: list[Fill] = []
    try:
        for i, (layer, experts) in enumerate(chunks):
            make_free(len(experts) * table.pages_per_expert[layer])
            under_way.append(Fill(arena, table, mover, layer, experts))
            if i > 0:
                read += under_way.pop(0).finish()
                done += sizes[i - 1]
                progress(done, total)
        if under_way:
            read += under_way.pop(0).finish()
        progress(total, total)
    finally:
        for fill in under_way:
            fill.abandon()
    return read
