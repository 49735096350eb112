"""Filling free expert quotas before the first token, by large sequential reads."""

from collections.abc import Callable, Iterator

from ebbtide.engine.memory.arena import Arena
from ebbtide.engine.memory.fill import Fill
from ebbtide.engine.memory.layer_cache import LayerCache
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.residents import Residents
from ebbtide.engine.memory.tables import WeightPageTable

Progress = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""

_READ_BYTES = 16 << 20


def _wanted(state: LayerCache) -> list[int]:
    """The first absent experts of a layer that its quota has room for."""
    held, wanted = state.held, []
    for expert, here in enumerate(state.resident):
        if not here and held + state.sizes[expert] <= state.quota.pages:
            wanted.append(expert)
            held += state.sizes[expert]
    return wanted


def _chunks(state: LayerCache, page_bytes: int) -> Iterator[tuple[int, list[int], int]]:
    """(layer, experts, pages) to read, in file order, about `_READ_BYTES` each."""
    chunk, pages = list[int](), 0
    for expert in _wanted(state):
        size = state.sizes[expert]
        if chunk and (pages + size) * page_bytes > _READ_BYTES:
            yield state.index, chunk, pages
            chunk, pages = [], 0
        chunk.append(expert)
        pages += size
    if chunk:
        yield state.index, chunk, pages


def warm(arena: Arena, table: WeightPageTable, mover: Moves, residents: Residents, progress: Progress) -> int:
    """Read the first absent experts of each layer until it holds its quota; bytes read.

    Pages are made free at the cost of layers above their quotas. Two chunks are under way at a time. Raises
    what the source or `progress` raises; what was read by then stays.
    """
    chunks = [chunk for state in residents.layers for chunk in _chunks(state, arena.page_bytes)]
    sizes = [pages * arena.page_bytes for _, _, pages in chunks]
    total, done, read = sum(sizes), 0, 0
    under_way: list[Fill] = []
    try:
        for i, (layer, experts, pages) in enumerate(chunks):
            residents.make_free(pages)
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
