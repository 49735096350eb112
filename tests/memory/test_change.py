"""Widths that change while a model is loaded: pages first or q first, whole or not at all, nobody waits."""

from collections.abc import Iterator

import numpy as np
import pytest

from ebbtide.engine.errors import FitError, ModelError
from ebbtide.engine.memory.arena import PageState, Tenant
from ebbtide.engine.memory.change import ChangeState
from ebbtide.engine.memory.provenance import Lane, Provenance
from tests.helpers.elastic import Late, even, pages_of, picture
from tests.helpers.memory_fakes import (
    EXPERTS,
    FLOOR_PAGES,
    KV,
    LAYERS,
    PAGE,
    System,
    ids,
    layouts,
    make_system,
)
from tests.helpers.memory_fakes import run_event as run
from tests.helpers.waiting import wait_until

ALL = FLOOR_PAGES * EXPERTS


def build(pages: int, width: int = 0) -> tuple[System, Late]:
    source = Late()
    return make_system(pages, source=source, width=width), source


@pytest.fixture
def low() -> Iterator[tuple[System, Late]]:
    """All experts are here, with three planes, and there is room for all of theirs."""
    system, source = build(ALL, width=3)
    system.pager.warm()
    source.reads.clear()
    source.extents.clear()
    yield system, source
    source.behind.set()
    system.close()


def settle(system: System) -> None:
    """Bring a change to its end."""
    change = system.pager.change
    while change is not None and change.is_open:
        wait_until(lambda: change.is_ready, "reads of further planes")
        system.pager.advance()
        system.check()


# --- lowering ---


def test_lowering_is_done_at_once_and_frees_the_pages() -> None:
    system, source = build(ALL)
    system.pager.warm()
    source.reads.clear()
    change = system.pager.set_widths(even(3))
    assert change.state is ChangeState.COMMITTED and system.pager.change is None
    assert source.reads == [] and system.pager._table.epoch == 1
    wanted = EXPERTS * sum(pair.page_count(3) for pair in layouts())
    assert system.arena.owned_pages(Tenant.EXPERTS) == wanted
    assert system.pager.floor_pages == wanted // EXPERTS
    system.check()
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))
    assert source.reads == [] and system.pager.hit_rate == 1.0
    assert system.pager.advance() is change and system.pager.advance() is None
    system.close()


def test_freed_pages_hold_more_experts() -> None:
    system, _ = build(FLOOR_PAGES * 3)
    system.pager.warm()
    assert system.pager.resident_count == 3 * LAYERS
    widths = even(8)
    widths[:, :, 2:] = np.minimum(widths[:, :, 2:], 2)
    system.pager.set_widths(widths)
    system.pager.warm()
    system.check()
    assert system.pager.resident_count > 3 * LAYERS
    assert system.arena.owned_pages(Tenant.EXPERTS) <= system.pager.capacity_pages
    system.close()


def test_where_all_experts_fit_at_their_widths_none_is_ever_evicted() -> None:
    widths = even(2)
    widths[0, :, 1], widths[1, 1, 4] = (5, 4), 8
    system, source = build(ALL)
    system.pager.set_widths(widths)
    needed = int(system.pager._table.pages_of(widths).sum())
    system.close()
    for pages, fits in ((needed, True), (needed - 1, False)):
        system, source = build(max(pages, FLOOR_PAGES))
        system.pager.set_widths(widths)
        system.pager.set_capacity(pages)
        system.pager.warm()
        for event in range(2 * LAYERS * EXPERTS):
            run(system, event % LAYERS, event // LAYERS % EXPERTS)
        assert (system.pager.resident_count == LAYERS * EXPERTS) == fits
        assert (len(source.reads) == 2 * LAYERS * EXPERTS) == fits
        assert system.arena.owned_pages(Tenant.EXPERTS) <= pages
        system.close()


# --- raising ---


def test_raising_reads_just_the_missing_extents_and_commits_when_all_is_there(
    low: tuple[System, Late],
) -> None:
    system, source = low
    before = picture(system.pager._table)
    source.behind.clear()
    change = system.pager.set_widths(even(8))
    assert change.is_open and change.pages_to_read == ALL - EXPERTS * sum(
        pair.page_count(3) for pair in layouts()
    )
    assert system.pager.advance() is None
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))
    table = system.pager._table
    assert set(system.pager.down(1).widths) == {3} and not table.is_exact
    assert picture(system.pager._table)[1] == before[1] and table.epoch == 0
    source.behind.set()
    settle(system)
    assert change.state is ChangeState.COMMITTED and table.is_exact and table.epoch == 1
    assert (table.available == even(8)).all()
    assert {(kind, first) for _, _, kind, first, _ in source.extents} == {("gate_up", 2), ("down", 2)}
    # `down` of even layers has four planes: one extent more; that of odd layers eight.
    assert {last for layer, _, kind, _, last in source.extents if kind == "down" and layer == 1} == {6}
    assert len(source.extents) == 2 * LAYERS * EXPERTS
    assert change.bytes_read == system.pager.bytes_raised
    assert change.bytes_read == PAGE * (ALL - EXPERTS * sum(pair.page_count(3) for pair in layouts()))
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))


def test_pages_under_way_are_owned_and_filling(low: tuple[System, Late]) -> None:
    system, source = low
    owned = system.arena.owned_pages(Tenant.EXPERTS)
    source.behind.clear()
    widths = even(3)
    widths[1, 1, 2] = 6
    system.pager.set_widths(widths)
    extra = layouts()[1].down.pages_at_width(6) - layouts()[1].down.pages_at_width(3)
    assert system.arena.pages_in_flight == extra
    assert system.arena.owned_pages(Tenant.EXPERTS) == owned + extra
    states = system.arena.states(system.pager._table.mapped_pages())
    assert set(states.tolist()) == {PageState.LIVE}
    system.check()
    source.behind.set()
    settle(system)
    assert system.arena.pages_in_flight == 0 and pages_of(system, 1, 2)[1] == layouts()[
        1
    ].down.pages_at_width(6)


def test_absent_experts_need_nothing_but_their_width() -> None:
    system, source = build(ALL, width=3)
    change = system.pager.set_widths(even(8))
    assert change.state is ChangeState.COMMITTED and source.reads == []
    run(system, 1, 4)
    assert pages_of(system, 1, 4) == [layout.page_count for layout in layouts()[1]]
    system.close()


def test_who_comes_while_a_change_is_open_is_read_wide_enough_for_it(low: tuple[System, Late]) -> None:
    system, source = low
    system.pager.evict(1, 5)
    source.behind.clear()
    change = system.pager.set_widths(even(8))
    run(system, 1, 5)
    assert pages_of(system, 1, 5) == [layout.page_count for layout in layouts()[1]]
    assert system.pager.down(1).widths[5] == 3
    source.behind.set()
    settle(system)
    assert change.state is ChangeState.COMMITTED


def test_a_read_that_began_before_a_change_does_not_miss_it() -> None:
    system, _ = build(ALL, width=3)
    system.pager.guess(1, ids(2))
    system.pager.set_widths(even(8)).finish()
    run(system, 1, 2)
    assert pages_of(system, 1, 2) == [layout.page_count for layout in layouts()[1]]
    system.close()


def test_who_leaves_while_a_change_is_open_takes_its_pages_along(low: tuple[System, Late]) -> None:
    system, source = low
    source.behind.clear()
    widths = even(3)
    widths[1] = even(8)[1]
    change = system.pager.set_widths(widths)
    staged = system.arena.pages_in_flight
    system.pager.evict(1, 5)
    assert system.arena.pages_in_flight < staged
    system.check()
    source.behind.set()
    settle(system)
    assert change.state is ChangeState.COMMITTED
    assert (1, 5, "down", 2, 6) not in source.extents
    run(system, 1, 5)
    assert pages_of(system, 1, 5) == [layout.page_count for layout in layouts()[1]]


def test_where_not_all_fit_at_the_wider_widths_the_least_valued_go(low: tuple[System, Late]) -> None:
    system, _ = low
    for layer in range(LAYERS):
        for expert in (0, 2, 4, 1, 3):
            run(system, layer, expert)
    system.pager.set_capacity(FLOOR_PAGES * 3)
    change = system.pager.set_widths(even(8))
    settle(system)
    assert change.state is ChangeState.COMMITTED
    for layer in range(LAYERS):
        here = system.pager._table.resident_experts(layer)
        assert 2 <= len(here) <= 3 and set(here) <= {1, 3, 4}
    assert system.arena.owned_pages(Tenant.EXPERTS) <= FLOOR_PAGES * 3


def test_at_the_floor_a_change_comes_to_its_end_too() -> None:
    system, _ = build(FLOOR_PAGES, width=3)
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))
    change = system.pager.set_widths(even(8))
    for turn in range(40):
        if not change.is_open:
            break
        wait_until(lambda: change.is_ready, "reads")
        system.pager.advance()
        run(system, turn % LAYERS, turn % EXPERTS, (turn + 1) % EXPERTS)
    assert change.state is ChangeState.COMMITTED
    assert system.pager.quotas == [1] * LAYERS
    system.close()


def test_a_change_of_many_goes_in_steps_that_are_published_one_by_one(
    low: tuple[System, Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.engine.memory.change.BATCH_EXPERTS", 2)
    system, _ = low
    change = system.pager.set_widths(even(8))
    left = []
    while change.is_open:
        left.append(change.pages_to_read)
        wait_until(lambda: change.is_ready, "reads")
        system.pager.advance()
        system.check()
        available = system.pager._table.available
        assert not change.is_open or set(system.pager.down(1).widths) == {3}
        assert (available >= even(3)).all()
    assert len(left) == LAYERS * EXPERTS // 2 and left == sorted(left, reverse=True)
    assert (system.pager._table.available == even(8)).all()


# --- one vector, whole ---


def test_a_mixed_vector_may_be_one_transaction(low: tuple[System, Late]) -> None:
    system, source = low
    widths = even(3)
    widths[0], widths[1, 1] = np.minimum(widths[0], 2), 7
    before = picture(system.pager._table)
    source.behind.clear()
    change = system.pager.begin_widths(widths)
    assert system.pager.advance() is None and picture(system.pager._table)[1:] == before[1:]
    source.behind.set()
    change.finish()
    assert system.pager.advance() is change
    table = system.pager._table
    assert (table.committed == widths).all() and table.epoch == 1
    assert (table.available == widths).all()
    system.check()


def test_set_widths_lowers_before_it_raises(low: tuple[System, Late]) -> None:
    system, source = low
    widths = even(3)
    widths[0], widths[1, 1] = np.minimum(widths[0], 2), 7
    source.behind.clear()
    system.pager.set_widths(widths)
    table = system.pager._table
    assert (table.committed == np.minimum(widths, even(3))).all() and table.epoch == 1
    source.behind.set()
    settle(system)
    assert (table.committed == widths).all() and table.epoch == 2


# --- cancelled, failed, replaced ---


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("whole", [True, False])
def test_a_cancelled_change_changes_nothing(
    low: tuple[System, Late], monkeypatch: pytest.MonkeyPatch, steps: int, whole: bool
) -> None:
    monkeypatch.setattr("ebbtide.engine.memory.change.BATCH_EXPERTS", 4)
    system, source = low
    widths = even(8)
    if whole:
        widths[2, :, 0] = 2
        widths[2, :, 1] = 3
    before, owned = picture(system.pager._table), system.arena.owned_pages(Tenant.EXPERTS)
    change = system.pager.begin_widths(widths) if whole else system.pager.set_widths(widths)
    for _ in range(steps):
        wait_until(lambda: change.is_ready, "reads")
        assert system.pager.advance() is None
    assert change.is_open
    change.cancel()
    assert change.state is ChangeState.CANCELLED and picture(system.pager._table) == before
    assert system.arena.owned_pages(Tenant.EXPERTS) == owned and not system.arena.pages_in_flight
    system.check()
    assert system.pager.advance() is change
    change.cancel()
    source.reads.clear()
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))
    assert source.reads == []


@pytest.mark.parametrize("first_is_good", [True, False])
def test_a_read_that_fails_leaves_the_old_state_and_is_told(
    low: tuple[System, Late], monkeypatch: pytest.MonkeyPatch, first_is_good: bool
) -> None:
    monkeypatch.setattr("ebbtide.engine.memory.change.BATCH_EXPERTS", 2)
    system, source = low
    source.broken_behind = {(1, 3) if first_is_good else (0, 0)}
    before = picture(system.pager._table)
    change = system.pager.set_widths(even(8))
    settle(system)
    assert change.state is ChangeState.FAILED and isinstance(change.error, ModelError)
    assert "the disk says no" in str(change.error) and change.error.hint
    assert (change.bytes_read > 0) == first_is_good
    assert picture(system.pager._table) == before
    with pytest.raises(ModelError, match="the disk says no"):
        change.finish()
    source.broken_behind.clear()
    system.pager.set_widths(even(8)).finish()
    assert system.pager._table.is_exact
    system.check()


def test_another_change_takes_over_and_uses_what_is_there(
    low: tuple[System, Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.engine.memory.change.BATCH_EXPERTS", 4)
    system, source = low
    first = system.pager.set_widths(even(8))
    wait_until(lambda: first.is_ready, "reads")
    system.pager.advance()
    wait_until(lambda: first.is_ready, "reads")
    second = system.pager.set_widths(even(4))
    assert first.state is ChangeState.CANCELLED and second.is_open
    system.check()
    settle(system)
    assert (system.pager._table.available == even(4)).all() and system.pager._table.epoch == 1
    blocks = [(layer, expert, kind) for layer, expert, kind, _, _ in source.extents]
    assert all(blocks.count((0, expert, "gate_up")) == 1 for expert in range(4)), "nothing is read twice"


def test_a_change_that_took_over_is_cancelled_to_where_the_first_began(
    low: tuple[System, Late], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.engine.memory.change.BATCH_EXPERTS", 4)
    system, _ = low
    before = picture(system.pager._table)
    for width in (8, 5):
        change = system.pager.set_widths(even(width))
        wait_until(lambda change=change: change.is_ready, "reads")  # type: ignore[misc]
        assert system.pager.advance() is None
    change.cancel()
    assert picture(system.pager._table) == before and not system.pager._table.has_surplus
    system.check()


def test_what_was_kept_before_outlives_a_cancelled_change(low: tuple[System, Late]) -> None:
    system, source = low
    system.pager.set_widths(even(2), keep=True)
    before = picture(system.pager._table)
    source.behind.clear()
    change = system.pager.set_widths(even(8))
    source.behind.set()
    wait_until(lambda: change.is_ready, "reads")
    change.cancel()
    assert picture(system.pager._table) == before
    system.check()


def test_closing_ends_a_change(low: tuple[System, Late]) -> None:
    system, _ = low
    system.pager.set_widths(even(8))
    system.close()
    system.arena.check_integrity()
    assert system.arena.pages_in_flight == 0


# --- who has precedence ---


def test_a_conversation_ends_a_change_before_an_expert_goes() -> None:
    all_at_4 = EXPERTS * sum(pair.page_count(4) for pair in layouts())
    system, source = build(all_at_4 + 2 * LAYERS, width=3)
    system.pager.warm()
    source.behind.clear()
    change = system.pager.set_widths(even(4))
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 2 * KV.tokens, Provenance(Lane.DECODE))
    assert change.is_open, "there is room for both"
    free = system.arena.free_pages
    source.behind.set()
    system.pool.extend(sequence, (free // LAYERS + 1) * KV.tokens, Provenance(Lane.DECODE))
    assert change.state is ChangeState.CANCELLED and system.pager.given == [0] * LAYERS
    system.check()
    assert system.pager.resident_count == LAYERS * EXPERTS
    system.close()


def test_a_smaller_capacity_ends_a_change_that_would_not_fit(low: tuple[System, Late]) -> None:
    system, source = low
    source.behind.clear()
    change = system.pager.set_widths(even(8))
    system.pager.set_capacity(FLOOR_PAGES)
    assert change.is_open, "one expert of each layer still fits"
    source.behind.set()
    system.pager.set_capacity(FLOOR_PAGES - 1)
    assert change.state is ChangeState.CANCELLED
    system.check()
    for layer in range(LAYERS):
        run(system, layer, 0, 5)


def test_widths_that_leave_no_room_for_one_expert_of_each_layer_are_refused() -> None:
    system, _ = build(FLOOR_PAGES, width=3)
    system.pager.set_capacity(FLOOR_PAGES - 1)
    before = picture(system.pager._table)
    for begin in (system.pager.set_widths, system.pager.begin_widths):
        widths = even(8)
        widths[0, 0, 0] = 2
        with pytest.raises(FitError, match="One expert of each layer takes"):
            begin(widths)
    assert picture(system.pager._table) == before
    widths = even(8)
    widths[0] = 2
    system.pager.set_widths(widths)
    system.check()
    system.close()


def test_one_wide_expert_makes_the_floor_of_its_layer() -> None:
    system, _ = build(FLOOR_PAGES * 2)
    widths = even(2)
    system.pager.set_widths(widths)
    low_floor = system.pager.floor_pages
    widths[1, 1, 3] = 8
    system.pager.set_widths(widths).finish()
    extra = layouts()[1].down.page_count - layouts()[1].down.pages_at_width(2)
    assert system.pager.floor_pages == low_floor + extra < FLOOR_PAGES
    system.pager.set_capacity(system.pager.floor_pages)
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))
    system.close()


def test_pins_hold_through_a_change_and_are_not_given_up_for_one(low: tuple[System, Late]) -> None:
    system, _ = low
    system.pager.set_capacity(FLOOR_PAGES * 3)
    for expert in (5, 4):
        system.pager.pin(1, expert)
    system.pager.set_widths(even(8))
    settle(system)
    assert {4, 5} <= set(system.pager._table.resident_experts(1)) and system.pager.lost_pins == []
    system.pager.set_widths(even(3))
    system.pager.pin(1, 3)
    with pytest.raises(FitError, match="pinned"):
        system.pager.set_widths(even(8))
    system.check()
    assert system.pager.pins()[1].tolist() == [0, 0, 0, 1, 1, 1]


def test_reads_for_a_token_do_not_wait_for_a_change(low: tuple[System, Late]) -> None:
    """Also where a token's misses evict who is being raised."""
    system, source = low
    system.pager.evict(0, 1)
    source.behind.clear()
    system.pager.set_widths(even(8))
    groups = system.pager.groups(0, ids(0, 1))
    assert next(groups)[0] and next(groups)[1]
    assert list(groups) == []
    system.check()


def test_lower_widths_leave_a_conversation_more_and_raising_waits_until_it_is_over() -> None:
    system, _ = build(FLOOR_PAGES + 2 * LAYERS)
    limit, sequence = system.tenancy.kv_limit_pages, system.pool.new_sequence()
    system.pager.set_widths(even(2))
    assert system.tenancy.kv_limit_pages >= limit + LAYERS
    system.pool.extend(sequence, 3 * KV.tokens, Provenance(Lane.DECODE))
    with pytest.raises(FitError, match="One expert of each layer takes"):
        system.pager.set_widths(even(8))
    for layer in range(LAYERS):
        run(system, layer, *range(EXPERTS))
    system.pool.release(sequence)
    system.pager.set_widths(even(8)).finish()
    assert system.pager._table.is_exact and system.tenancy.kv_limit_pages == limit
    system.check()
    system.close()
