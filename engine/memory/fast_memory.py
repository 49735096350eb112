"""Fast memory put together: one arena, its two tenants and their books, as a plan says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ebbtide.engine.memory.arena import Arena
from ebbtide.engine.memory.kv import KvPool
from ebbtide.engine.memory.ledger import Ledger
from ebbtide.engine.memory.mover import Mover, Moves
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.plan import MemoryPlan
from ebbtide.engine.memory.prefix_cache import PrefixCache
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.memory.slabs import SlabMemory
from ebbtide.engine.memory.slow import ExpertSource
from ebbtide.engine.memory.tables import LayerLayouts, WeightPageTable
from ebbtide.engine.memory.tenancy import NoExperts, Tenancy
from ebbtide.kernels.ops import KvLayout


@dataclass(frozen=True)
class ExpertBank:
    """The experts of a model: `layouts` per layer, `experts` in each, and where they are read from.

    `width`: planes of each that are used, 0 = all; the plan's pages of an expert are meant at this width.
    """

    layouts: Sequence[LayerLayouts]
    experts: int
    source: ExpertSource
    width: int = 0


@dataclass(frozen=True)
class FastMemory:
    """All parts. `pager` and `table` are None for a dense model."""

    arena: Arena
    table: WeightPageTable | None
    pager: Pager | None
    tenancy: Tenancy
    pool: KvPool
    prefixes: PrefixCache
    ledger: Ledger

    @property
    def planes(self) -> int:
        """Planes of the widest expert block; 0 = there are no experts."""
        return (
            0 if self.table is None else max(layout.planes for pair in self.table.layouts for layout in pair)
        )

    @property
    def width(self) -> int:
        """Planes with which that block is computed."""
        return 0 if self.table is None else int(self.table.committed.max())

    @property
    def is_exact(self) -> bool:
        """Whether all that is computed now is computed with every plane there is."""
        return self.table is None or self.table.is_exact

    def provenance(self, lane: Lane) -> Provenance:
        """Of keys and values that are computed now."""
        epoch = 0 if self.table is None else self.table.epoch
        return Provenance(lane, self.pool.kv.format, epoch, self.is_exact)

    def check_integrity(self) -> None:
        """Raise AssertionError or LedgerError unless every part is consistent. Between steps only."""
        self.arena.check_integrity()
        if self.pager is not None:
            self.pager.check_integrity()
        self.prefixes.check_integrity()
        self.pool.check_integrity(self.prefixes.blocks())
        self.ledger.check()

    def close(self) -> None:
        """End the reader threads and give all pages' memory back. No kernel may run on it after this."""
        if self.pager is not None:
            self.pager.close()
        self.arena.close()


def open_memory(
    plan: MemoryPlan,
    kv: KvLayout,
    *,
    layers: int,
    bank: ExpertBank | None = None,
    policy: str = "lfru",
    prefetch: bool = False,
    retain_prefixes: bool = True,
    slabs: SlabMemory | None = None,
    mover: Callable[[], Moves] | None = None,
) -> FastMemory:
    """Build fast memory for a plan; nothing is read or touched yet (`pager.warm` does that).

    `kv` and `layers` describe the KV cache, `bank` the experts. `slabs` is where pages come from and `mover`
    makes what fills them: this process's memory and its readers, if they are not given. Raises UsageError for
    an unknown policy.
    """
    arena = Arena(plan.page_bytes, plan.total_pages, memory=slabs)
    table = pager = None
    if bank is not None:
        table = WeightPageTable(bank.layouts, bank.experts, arena.pages, bank.width)
        capacity = max(plan.total_pages - plan.kv_floor_pages, plan.expert_floor_pages)
        moves = mover() if mover is not None else Mover(bank.source)
        pager = Pager(arena, table, moves, capacity_pages=capacity, policy=policy, prefetch=prefetch)
    tenancy = Tenancy(
        arena, pager or NoExperts(), reserve_pages=plan.kv_floor_pages, retain_prefixes=retain_prefixes
    )
    pool = KvPool(arena, tenancy, kv, layers=layers, max_tokens=plan.ctx)
    prefixes = PrefixCache(pool, tenancy)
    return FastMemory(arena, table, pager, tenancy, pool, prefixes, Ledger(plan, arena, pager))
