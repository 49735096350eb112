"""A slow tier whose every page is recognisable, and small memory systems built on it."""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import ModelError
from ebbtide.engine.memory.arena import Arena
from ebbtide.engine.memory.kv import KvPool
from ebbtide.engine.memory.mover import Mover
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.prefix_cache import PrefixCache
from ebbtide.engine.memory.slabs import SlabMemory
from ebbtide.engine.memory.slow import KINDS, Kind
from ebbtide.engine.memory.tables import LayerLayouts, WeightPageTable
from ebbtide.engine.memory.tenancy import Tenancy
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import BlockTable, KvLayout
from tests.helpers.waiting import PATIENCE_S

PAGE = 4096
LAYERS, EXPERTS = 3, 6
KV = KvLayout(heads=1, head_dim=64, tokens=16)
"""16 tokens of K and V, 64 wide, in BF16: one 4 KiB page."""


def layouts(layers: int = LAYERS) -> list[LayerLayouts]:
    """Odd layers have a wider `down`, so that layers differ in pages per expert."""
    up = [MatrixShape(96, 64, FORMATS["Q4_0"]), MatrixShape(96, 64, FORMATS["Q5_0"])]
    down = [MatrixShape(64, 96, FORMATS[name]) for name in ("Q4_0", "Q8_0")]
    return [
        LayerLayouts(
            block_layout(up, page_bytes=PAGE, floor_planes=2),
            block_layout([down[layer % 2]], page_bytes=PAGE, floor_planes=2),
        )
        for layer in range(layers)
    ]


def pattern(layer: int, expert: int, kind: Kind, page: int) -> int:
    """The 32-bit word that fills a page of a block's address space."""
    return 1 + (((layer * 64 + expert) * 2 + KINDS.index(kind)) * 1024 + page)


def page_view(arena: Arena, page: int) -> NDArray[np.uint8]:
    """The bytes of a page in the process's own memory, u8[page_bytes]; valid while the page is owned."""
    (address,) = arena.addresses(np.array([page], np.int32))
    return np.ctypeslib.as_array((ctypes.c_uint8 * arena.page_bytes).from_address(address))


class FakeSource:
    """Fills pages with `pattern`. Blocks in `broken` fail; reads wait while `gate` is cleared."""

    def __init__(self) -> None:
        self.broken: set[tuple[int, int]] = set()
        self.reads: list[tuple[int, int, Kind]] = []
        self.last_extents: set[tuple[int, Kind, int]] = set()
        """(layer, kind, last extent) of all that was read."""
        self.extents: list[tuple[int, int, Kind, int, int]] = []
        """(layer, expert, kind, first extent, last extent) of what was read whole, in order."""
        self._layouts = layouts()
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[tuple[int, int]],
    ) -> int:
        assert self.gate.wait(PATIENCE_S), "a test forgot to open the gate"
        with self._lock:
            self.reads.append((layer, expert, kind))
            self.last_extents.add((layer, kind, last_extent))
        if (layer, expert) in self.broken and kind == "down":
            raise OSError("the disk says no")
        self.extents.append((layer, expert, kind, first_extent, last_extent))
        start = getattr(self._layouts[layer], kind).extent(first_extent)[0] // PAGE
        for page, (address, nbytes) in enumerate(targets, start):
            words = (ctypes.c_uint32 * (nbytes // 4)).from_address(address)
            np.ctypeslib.as_array(words)[:] = pattern(layer, expert, kind, page)
        return sum(nbytes for _, nbytes in targets)


class NetworkDown(FakeSource):
    """Fails with an error of ebbtide's own."""

    def read_expert(self, *_: object) -> int:
        raise ModelError("gone", hint="find it")


def read_block(arena: Arena, block: BlockTable, expert: int) -> list[set[int]]:
    """The distinct words of each page that a block has, read through its page table."""
    pages = [page for page in block.page_table[expert].tolist() if page >= 0]
    return [set(page_view(arena, page).view(np.uint32).tolist()) for page in pages]


def is_intact(arena: Arena, pager: Pager, layer: int, expert: int) -> bool:
    """Whether both blocks of a resident expert hold their pattern, in the pages of their width at least.

    That they have just the pages of their available width is `check_integrity`'s to say.
    """
    for kind, block in zip(KINDS, (pager.gate_up(layer), pager.down(layer)), strict=True):
        found = read_block(arena, block, expert)
        needed = block.layout.pages_at_width(int(block.widths[expert]))
        intact = [{pattern(layer, expert, kind, page)} for page in range(len(found))]
        if len(found) < needed or found != intact:
            return False
    return True


def ids(*experts: int) -> NDArray[np.int32]:
    return np.array(sorted(experts), np.int32)


def run_event(system: "System", layer: int, *experts: int) -> list[list[int]]:
    """One event; the groups' routed experts. Each is checked to be readable while its group is current, and
    that nothing is left open.
    """
    groups = []
    for mask in system.pager.groups(layer, ids(*experts)):
        current = [expert for expert in experts if mask[expert]]
        assert all(is_intact(system.arena, system.pager, layer, expert) for expert in current)
        groups.append(current)
    assert sorted(chain(*groups)) == sorted(experts)
    system.check()
    return groups


@dataclass
class System:
    """Both tenants over one arena."""

    arena: Arena
    source: FakeSource
    pager: Pager
    tenancy: Tenancy
    pool: KvPool
    prefixes: PrefixCache

    def check(self) -> None:
        self.arena.check_integrity()
        self.pager.check_integrity()
        self.pool.check_integrity(self.prefixes.blocks())
        self.prefixes.check_integrity()

    def close(self) -> None:
        self.pager.close()


EXPERT_PAGES = [pair.page_count() for pair in layouts()]
FLOOR_PAGES = sum(EXPERT_PAGES)


def make_system(
    pages: int,
    *,
    policy: str = "lru",
    prefetch: bool = True,
    reserve: int = 0,
    max_tokens: int = 320,
    retain_prefixes: bool = True,
    source: FakeSource | None = None,
    memory: SlabMemory | None = None,
    width: int = 0,
    mover: Mover | None = None,
) -> System:
    """A pager and a KV pool of `LAYERS` layers over `pages` pages in slabs of 8. `mover` is over `source`."""
    source = source or FakeSource()
    arena = Arena(PAGE, pages, slab_bytes=8 * PAGE, memory=memory)
    table = WeightPageTable(layouts(), EXPERTS, arena.pages, width)
    moves = mover or Mover(source)
    pager = Pager(arena, table, moves, capacity_pages=pages, policy=policy, prefetch=prefetch)
    tenancy = Tenancy(arena, pager, reserve_pages=reserve, retain_prefixes=retain_prefixes)
    pool = KvPool(arena, tenancy, KV, layers=LAYERS, max_tokens=max_tokens)
    return System(arena, source, pager, tenancy, pool, PrefixCache(pool, tenancy))
