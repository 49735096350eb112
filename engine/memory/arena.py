"""The arena: all pages of fast memory, in slabs, shared by two tenants.

    page   0 1 2 ...                                         ... n-1
          | slab 0        | slab 1        |  ...  | slab s-1      |
          KV -->                                        <-- experts

KV fills from the low end and experts from the high end, so that a shrinking tenant leaves whole slabs free.
A slab is mapped when its first page is taken and costs nothing before that; `trim` gives wholly free slabs
back. One thread (the step thread) allocates and releases; reader threads only write through addresses they
were given.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.slabs import HostSlabs, SlabMemory
from ebbtide.kernels.ops import Pages

SLAB_BYTES = 32 << 20

I32 = NDArray[np.int32]
U8 = NDArray[np.uint8]
NOT_MAPPED = 0


class Tenant(IntEnum):
    """Who owns a page."""

    NOBODY = 0
    KV = 1
    EXPERTS = 2
    LOST = 3
    """Its slab could not be had (`give_up_unmapped`)."""


class PageState(IntEnum):
    """What a physical page is doing. Data that has no page is SLOW: its page table entry is -1.

    FREE -> FILLING (being read) -> READY (complete) -> LIVE (published) -> RETIRING (no new reader) -> FREE.
    A KV page is LIVE from the start.
    """

    FREE = 0
    FILLING = 1
    READY = 2
    LIVE = 3
    RETIRING = 4


class OutOfPagesError(Exception):
    """Fewer free pages than asked for; nothing was changed."""


class Arena:
    """`total_pages` pages of `page_bytes` each (a multiple of 4 KiB).

    `pages` is what kernels get: the same object for good, its slab bases edited as slabs come and go.
    """

    def __init__(
        self,
        page_bytes: int,
        total_pages: int,
        *,
        slab_bytes: int = SLAB_BYTES,
        memory: SlabMemory | None = None,
    ) -> None:
        if page_bytes <= 0 or page_bytes % 4096 or total_pages < 0:
            raise ValueError(f"bad arena: {total_pages} pages of {page_bytes} bytes")
        self.page_bytes, self.total_pages = page_bytes, total_pages
        self.pages_per_slab = max(1, slab_bytes // page_bytes)
        slabs = -(-total_pages // self.pages_per_slab)
        self._memory: SlabMemory = memory or HostSlabs()
        self._bases = [NOT_MAPPED] * slabs
        self._owner = np.zeros(total_pages, np.uint8)
        self._state = np.zeros(total_pages, np.uint8)
        self._written = np.zeros(total_pages, np.bool_)
        """Pages that had an owner since their slab was mapped; the others are still zero."""
        self._free_in_slab = np.array([self._slab_pages(slab) for slab in range(slabs)], np.int64)
        self._owned = [total_pages, 0, 0, 0]
        self.peak_pages = 0
        """The most pages ever owned at once."""
        self.pages = Pages(np.zeros(slabs, np.uint64), self.pages_per_slab, page_bytes)

    def _slab_pages(self, slab: int) -> int:
        return min(self.pages_per_slab, self.total_pages - slab * self.pages_per_slab)

    @property
    def free_pages(self) -> int:
        return self._owned[Tenant.NOBODY]

    @property
    def lost_pages(self) -> int:
        return self._owned[Tenant.LOST]

    @property
    def usable_pages(self) -> int:
        """All but those that are lost."""
        return self.total_pages - self.lost_pages

    @property
    def mapped_pages(self) -> int:
        """Pages whose slab has memory."""
        return sum(self._slab_pages(slab) for slab in self._mapped())

    def owned_pages(self, tenant: Tenant) -> int:
        return self._owned[tenant]

    @property
    def pages_in_flight(self) -> int:
        """Pages that a read is filling now; they are owned already."""
        return int(np.count_nonzero(self._state == PageState.FILLING))

    @property
    def mapped_bytes(self) -> int:
        return self.mapped_pages * self.page_bytes

    @property
    def spare_bytes(self) -> int:
        """Free pages that had an owner and are still mapped: the system counts them as this process's."""
        spare = self._written & (self._owner == Tenant.NOBODY)
        return int(np.count_nonzero(spare)) * self.page_bytes

    def allocate(self, count: int, tenant: Tenant) -> I32:
        """Take `count` pages from the tenant's end, all or none; ids i32[count].

        Expert pages start FILLING with any contents. KV pages start LIVE and zeroed, because kernels may load
        whole vectors past the last position and what they find there must be finite.
        Raises OutOfPagesError, or FitError when there is no memory for a slab.
        """
        if count > self.free_pages:
            raise OutOfPagesError(f"{count} pages wanted, {self.free_pages} of {self.total_pages} free")
        taken = self._pick(count, from_low_end=tenant is Tenant.KV)
        self._map(taken)
        if tenant is Tenant.KV:
            for address in self.addresses(taken[self._written[taken]]):
                self._memory.zero(address, self.page_bytes)
        self._written[taken] = True
        self._owner[taken] = tenant
        self._state[taken] = PageState.LIVE if tenant is Tenant.KV else PageState.FILLING
        self._count(taken, -1)
        self._owned[Tenant.NOBODY] -= count
        self._owned[tenant] += count
        self.peak_pages = max(self.peak_pages, self.usable_pages - self.free_pages)
        return taken

    def _pick(self, count: int, *, from_low_end: bool) -> I32:
        slabs = np.flatnonzero(self._free_in_slab)
        parts: list[NDArray[np.int64]] = []
        for slab in slabs if from_low_end else slabs[::-1]:
            if count == 0:
                break
            start = int(slab) * self.pages_per_slab
            free = np.flatnonzero(self._owner[start : start + self.pages_per_slab] == Tenant.NOBODY)
            part = free[:count] if from_low_end else free[-count:]
            parts.append(part + start)
            count -= len(part)
        return np.concatenate(parts).astype(np.int32) if parts else np.empty(0, np.int32)

    def _map(self, pages: I32) -> None:
        for slab in np.unique(pages // self.pages_per_slab).tolist():
            if self._bases[slab] == NOT_MAPPED:
                nbytes = self._slab_pages(slab) * self.page_bytes
                self._bases[slab] = self.pages.slab_bases[slab] = self._memory.allocate(nbytes)

    def give_up_unmapped(self) -> None:
        """Do without the slabs that have no memory yet, for good: there is none for them."""
        slabs = [slab for slab, base in enumerate(self._bases) if base == NOT_MAPPED]
        for slab in slabs:
            start = slab * self.pages_per_slab
            pages = slice(start, start + self._slab_pages(slab))
            lost = int(np.count_nonzero(self._owner[pages] == Tenant.NOBODY))
            self._owner[pages], self._state[pages] = Tenant.LOST, PageState.RETIRING
            self._free_in_slab[slab] = 0
            self._owned[Tenant.NOBODY] -= lost
            self._owned[Tenant.LOST] += lost

    def _mapped(self) -> list[int]:
        """Slabs that have memory."""
        return [slab for slab, base in enumerate(self._bases) if base != NOT_MAPPED]

    def _count(self, pages: I32, sign: int) -> None:
        slabs = len(self._free_in_slab)
        self._free_in_slab += sign * np.bincount(pages // self.pages_per_slab, minlength=slabs)

    def release(self, pages: I32, tenant: Tenant) -> None:
        """Give pages back. Raises ValueError (and changes nothing) unless `tenant` owns each, named once."""
        if self._distinct(pages) != len(pages) or not (self._owner[pages] == tenant).all():
            raise ValueError(f"pages {pages.tolist()} are not {tenant.name}'s, or are named twice")
        self._owner[pages] = Tenant.NOBODY
        self._state[pages] = PageState.FREE
        self._count(pages, 1)
        self._owned[tenant] -= len(pages)
        self._owned[Tenant.NOBODY] += len(pages)

    def _distinct(self, pages: I32) -> int:
        """Different pages among these. Sets win for an expert's, marks for the thousands of a change."""
        if len(pages) <= 256:
            return len(set(pages.tolist()))
        marks = np.zeros(self.total_pages, np.bool_)
        marks[pages] = True
        return int(np.count_nonzero(marks))

    def set_state(self, pages: I32, state: PageState) -> None:
        self._state[pages] = state

    def states(self, pages: I32) -> U8:
        """PageState of each page, u8."""
        return self._state[pages]

    def addresses(self, pages: I32) -> list[int]:
        """Where each page (of a mapped slab) starts."""
        slab, inside = np.divmod(pages, self.pages_per_slab)
        bases = self.pages.slab_bases[slab]
        found: list[int] = (bases + inside.astype(np.uint64) * np.uint64(self.page_bytes)).tolist()
        return found

    def copy_page(self, source: int, target: int) -> None:
        """Copy the bytes of one page of a mapped slab to another."""
        here, there = self.addresses(np.array([source, target], np.int32))
        self._memory.copy(there, here, self.page_bytes)

    def trim(self) -> int:
        """Give wholly free slabs back to the system; bytes given back."""
        free = [slab for slab in self._mapped() if self._free_in_slab[slab] == self._slab_pages(slab)]
        for slab in free:
            self._unmap(slab)
        return sum(self._slab_pages(slab) for slab in free) * self.page_bytes

    def close(self) -> None:
        """Give all memory back, whoever owns pages in it. Nothing may read or write a page after this."""
        for slab in self._mapped():
            self._unmap(slab)

    def _unmap(self, slab: int) -> None:
        start = slab * self.pages_per_slab
        self._written[start : start + self.pages_per_slab] = False
        self._memory.release(self._bases[slab])
        self._bases[slab] = self.pages.slab_bases[slab] = NOT_MAPPED

    def check_integrity(self) -> None:
        """Raise AssertionError unless counts, owners, states and mappings agree."""
        counts = np.bincount(self._owner, minlength=len(Tenant)).tolist()
        assert counts == self._owned, f"owned pages {self._owned}, the page array says {counts}"
        free = self._owner == Tenant.NOBODY
        assert ((self._state == PageState.FREE) == free).all(), "a page is owned but FREE, or the reverse"
        for slab, base in enumerate(self._bases):
            start = slab * self.pages_per_slab
            free_here = free[start : start + self.pages_per_slab]
            here = int(np.count_nonzero(free_here))
            assert here == self._free_in_slab[slab], f"slab {slab} has {here} free pages"
            assert base == self.pages.slab_bases[slab], f"slab {slab} moved"
            unused = self._owner[start : start + self.pages_per_slab] == Tenant.LOST
            assert base == NOT_MAPPED or not unused.any(), f"slab {slab} is lost but has memory"
            assert base != NOT_MAPPED or (free_here | unused).all(), f"slab {slab} has no memory"


def join_pages(parts: Sequence[I32]) -> I32:
    """Page ids of several pieces as one array."""
    return np.concatenate(parts) if parts else np.empty(0, np.int32)
