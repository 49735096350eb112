import os
import sys

import numpy as np
import psutil
import pytest

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory import slabs as slabs_module
from ebbtide.engine.memory.arena import Arena, OutOfPagesError, PageState, Tenant
from tests.helpers.memory_fakes import page_view

PAGE = 4096


def small(pages: int = 20) -> Arena:
    return Arena(PAGE, pages, slab_bytes=8 * PAGE)


def test_tenants_fill_from_opposite_ends() -> None:
    arena = small()
    kv, experts = arena.allocate(3, Tenant.KV), arena.allocate(5, Tenant.EXPERTS)
    assert kv.tolist() == [0, 1, 2]
    assert sorted(experts.tolist()) == [15, 16, 17, 18, 19]
    arena.check_integrity()


def test_until_they_meet() -> None:
    arena = small()
    taken = [arena.allocate(7, Tenant.KV), arena.allocate(13, Tenant.EXPERTS)]
    assert sorted(np.concatenate(taken).tolist()) == list(range(20))
    assert arena.free_pages == 0 and arena.peak_pages == 20
    with pytest.raises(OutOfPagesError):
        arena.allocate(1, Tenant.KV)
    arena.check_integrity()


def test_too_much_takes_nothing() -> None:
    arena = small()
    with pytest.raises(OutOfPagesError):
        arena.allocate(21, Tenant.EXPERTS)
    assert arena.free_pages == 20 and arena.mapped_bytes == 0


def test_freed_pages_come_back_at_their_end() -> None:
    arena = small()
    kv = arena.allocate(12, Tenant.KV)
    arena.release(kv[2:5], Tenant.KV)
    assert arena.allocate(4, Tenant.KV).tolist() == [2, 3, 4, 12]
    arena.check_integrity()


@pytest.mark.parametrize("twice", [0, 998])
def test_a_page_that_is_named_twice_among_many_is_found(twice: int) -> None:
    arena = small(1000)
    pages = arena.allocate(999, Tenant.EXPERTS)
    with pytest.raises(ValueError, match="named twice"):
        arena.release(np.append(pages, pages[twice]), Tenant.EXPERTS)
    assert arena.owned_pages(Tenant.EXPERTS) == 999
    arena.release(pages, Tenant.EXPERTS)
    arena.check_integrity()


@pytest.mark.parametrize("pages", [[3], [0, 0], [0, 12]])
def test_pages_of_others_or_twice_cannot_be_freed(pages: list[int]) -> None:
    arena = small()
    arena.allocate(3, Tenant.KV)
    arena.allocate(8, Tenant.EXPERTS)
    with pytest.raises(ValueError, match="KV"):
        arena.release(np.array(pages, np.int32), Tenant.KV)
    assert arena.owned_pages(Tenant.KV) == 3
    arena.check_integrity()


def test_the_page_formula_reaches_the_page() -> None:
    arena = small()
    view = arena.pages
    for page in arena.allocate(20, Tenant.EXPERTS).tolist():
        page_view(arena, page)[:] = page
        slab, inside = divmod(page, view.pages_per_slab)
        address = int(view.slab_bases[slab]) + inside * view.page_bytes
        assert address == page_view(arena, page).ctypes.data == arena.addresses(np.array([page], np.int32))[0]
        assert address % PAGE == 0
    assert all((page_view(arena, page) == page).all() for page in range(20))


def test_states() -> None:
    arena = small()
    kv, experts = arena.allocate(2, Tenant.KV), arena.allocate(2, Tenant.EXPERTS)
    assert (arena.states(kv) == PageState.LIVE).all()
    assert (arena.states(experts) == PageState.FILLING).all() and arena.pages_in_flight == 2
    arena.set_state(experts, PageState.READY)
    assert arena.pages_in_flight == 0
    arena.release(experts, Tenant.EXPERTS)
    assert (arena.states(experts) == PageState.FREE).all()


def test_slabs_come_and_go_behind_the_same_view() -> None:
    arena = small()
    bases = arena.pages.slab_bases
    assert arena.mapped_bytes == 0 and not bases.any()
    kv = arena.allocate(9, Tenant.KV)
    assert arena.mapped_bytes == 16 * PAGE and bases[0] and bases[1] and not bases[2]
    arena.release(kv[1:], Tenant.KV)
    assert arena.trim() == 8 * PAGE and not bases[1]
    assert arena.trim() == 0
    arena.check_integrity()
    arena.allocate(9, Tenant.KV)
    assert bases[1] and arena.pages.slab_bases is bases
    arena.check_integrity()


def test_the_last_slab_is_as_long_as_its_pages() -> None:
    arena = small(17)
    arena.allocate(1, Tenant.EXPERTS)
    assert arena.mapped_bytes == PAGE


def resident() -> int:
    return int(psutil.Process(os.getpid()).memory_info().rss)


def test_untouched_slabs_cost_nothing_and_trimmed_ones_are_really_gone() -> None:
    pages, size = 48 << 8, 48 << 20
    arena = Arena(PAGE, pages, slab_bytes=16 << 20)
    before = resident()
    taken = arena.allocate(pages, Tenant.EXPERTS)
    mapped = resident()
    for page in taken.tolist():
        page_view(arena, page)[:] = 1
    touched = resident()
    arena.release(taken, Tenant.EXPERTS)
    assert arena.trim() == size
    after = resident()
    assert mapped - before < size // 4
    assert touched - mapped > size * 3 // 4
    assert touched - after > size * 3 // 4


def test_a_system_without_memory_is_a_fit_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(nbytes: int, *, huge_pages: bool) -> None:
        raise OSError("Cannot allocate memory")

    arena = small()
    monkeypatch.setattr(slabs_module, "anonymous", refuse)
    with pytest.raises(FitError, match="refused"):
        arena.allocate(1, Tenant.KV)
    assert arena.free_pages == 20
    arena.check_integrity()


@pytest.mark.parametrize(("page_bytes", "pages"), [(0, 4), (1000, 4), (PAGE, -1)])
def test_bad_sizes(page_bytes: int, pages: int) -> None:
    with pytest.raises(ValueError, match="bad arena"):
        Arena(page_bytes, pages)


def test_an_empty_arena() -> None:
    arena = Arena(PAGE, 0)
    assert arena.allocate(0, Tenant.KV).size == 0
    arena.check_integrity()


def test_integrity_notices_damage() -> None:
    for damage in range(3):
        arena = small()
        pages = arena.allocate(4, Tenant.KV)
        if damage == 0:
            arena.set_state(pages[:1], PageState.FREE)
        elif damage == 1:
            arena.pages.slab_bases[0] += 8
        else:
            arena._owner[7] = Tenant.EXPERTS
        with pytest.raises(AssertionError):
            arena.check_integrity()


def test_memory_is_private() -> None:
    """A shared anonymous mapping would count as shared memory, under other limits."""
    if sys.platform == "linux":
        arena = small()
        arena.allocate(1, Tenant.KV)
        base = int(arena.pages.slab_bases[0])
        with open("/proc/self/maps") as maps:  # noqa: PTH123
            ranges = [line.split() for line in maps]
        modes = [
            fields[1]
            for fields in ranges
            if int(fields[0].split("-")[0], 16) <= base < int(fields[0].split("-")[1], 16)
        ]
        assert modes == ["rw-p"]


def test_kv_pages_are_zeroed_whoever_had_them() -> None:
    arena = small(8)
    for tenant in (Tenant.EXPERTS, Tenant.KV):
        pages = arena.allocate(8, tenant)
        for page in pages.tolist():
            page_view(arena, page)[:] = 255
        arena.release(pages, tenant)
        fresh = arena.allocate(8, Tenant.KV)
        assert not any(page_view(arena, page).any() for page in fresh.tolist())
        arena.release(fresh, Tenant.KV)
    arena.trim()
    assert not any(page_view(arena, page).any() for page in arena.allocate(8, Tenant.KV).tolist())


def test_a_closed_arena_holds_no_memory() -> None:
    arena = small()
    arena.allocate(20, Tenant.KV)
    arena.close()
    assert arena.mapped_bytes == 0 and not arena.pages.slab_bases.any()


def test_a_page_is_copied_across_slabs() -> None:
    arena = small()
    arena.allocate(20, Tenant.EXPERTS)
    page_view(arena, 1)[:] = 7
    page_view(arena, 18)[:] = 9
    arena.copy_page(1, 18)
    assert (page_view(arena, 18) == 7).all() and (page_view(arena, 1) == 7).all()
