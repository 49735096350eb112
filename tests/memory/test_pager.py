import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from ebbtide.engine.errors import ModelError, UsageError
from ebbtide.engine.memory.arena import Tenant
from tests.helpers.memory_fakes import (
    EXPERT_PAGES,
    EXPERTS,
    FLOOR_PAGES,
    LAYERS,
    PAGE,
    FakeSource,
    NetworkDown,
    System,
    ids,
    is_intact,
    layouts,
    make_system,
)
from tests.helpers.memory_fakes import run_event as run
from tests.helpers.waiting import PATIENCE_S


@pytest.fixture
def roomy() -> Iterator[System]:
    """Every expert fits."""
    system = make_system(FLOOR_PAGES * EXPERTS)
    yield system
    system.close()


@pytest.fixture
def tight() -> Iterator[System]:
    """Three experts fit in each layer."""
    system = make_system(FLOOR_PAGES * 3)
    yield system
    system.close()


def resident(system: System, layer: int) -> list[int]:
    table = system.pager.gate_up(layer).page_table
    return [expert for expert in range(EXPERTS) if table[expert, 0] >= 0]


def test_misses_are_read_once_then_hit(roomy: System) -> None:
    run(roomy, 0, 1, 4)
    run(roomy, 0, 1, 4)
    assert sorted(roomy.source.reads) == [
        (0, 1, "down"), (0, 1, "gate_up"), (0, 4, "down"), (0, 4, "gate_up")
    ]  # fmt: skip
    assert (roomy.pager.hits, roomy.pager.misses, roomy.pager.hit_rate) == (2, 2, 0.5)
    assert roomy.pager.bytes_paged_in == 2 * EXPERT_PAGES[0] * PAGE


def test_router_output_may_be_passed_as_it_is(roomy: System) -> None:
    routed = np.array([[3, 1], [1, 3], [5, 1]], np.int32)
    masks = [mask.copy() for mask in roomy.pager.groups(1, routed)]
    assert resident(roomy, 1) == [1, 3, 5]
    assert masks[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert roomy.pager.misses == 3
    chunk = np.tile(routed, (50, 1))
    for mask in roomy.pager.groups(1, chunk):
        assert mask[[1, 3, 5]].all()
    assert roomy.pager.hits == 3


def test_hits_are_computed_while_misses_are_read(roomy: System) -> None:
    run(roomy, 2, 0)
    roomy.source.gate.clear()
    groups = roomy.pager.groups(2, ids(0, 5))
    first = next(groups)
    assert first.tolist() == [1, 0, 0, 0, 0, 0]
    roomy.source.gate.set()
    assert next(groups).tolist() == [0, 0, 0, 0, 0, 1]
    assert list(groups) == []
    roomy.check()


def test_all_blocks_of_a_layer_are_read_together(roomy: System) -> None:
    """The readers work on several blocks at the same time."""
    source, together = roomy.source, threading.Barrier(2)
    plain = source.read_expert

    def meet(layer: int, expert: int, kind: str, *rest: object) -> int:
        together.wait(PATIENCE_S)
        return plain(layer, expert, kind, *rest)  # type: ignore[arg-type]

    source.read_expert = meet  # type: ignore[method-assign, assignment]
    run(roomy, 0, 2)


def test_the_least_recent_event_goes_first(tight: System) -> None:
    run(tight, 0, 0, 1)
    run(tight, 0, 2)
    run(tight, 0, 1)
    run(tight, 0, 3)
    assert resident(tight, 0) == [1, 2, 3]


def test_an_event_does_not_evict_its_own(tight: System) -> None:
    """Experts of one event are used together: processed one by one, 0 would be evicted for 3."""
    run(tight, 1, 0, 1, 2)
    run(tight, 1, 0, 3)
    assert resident(tight, 1) == [0, 2, 3]
    tight.pager.reset_counters()
    run(tight, 1, 0, 2, 3)
    assert tight.pager.hit_rate == 1.0


def test_layers_do_not_evict_each_other(tight: System) -> None:
    for layer in range(LAYERS):
        run(tight, layer, 0, 1, 2)
    for expert in range(EXPERTS):
        run(tight, 2, expert)
    assert resident(tight, 0) == resident(tight, 1) == [0, 1, 2]


def test_more_experts_than_fit_come_in_groups(tight: System) -> None:
    run(tight, 0, 4)
    groups = run(tight, 0, 0, 1, 2, 3, 4, 5)
    assert groups[0] == [4]
    assert len(groups) > 2 and all(len(group) <= 3 for group in groups)


def test_at_the_floor_every_expert_comes_alone() -> None:
    system = make_system(FLOOR_PAGES)
    assert system.pager.quotas == [1] * LAYERS
    for layer in range(LAYERS):
        assert run(system, layer, 0, 2, 4, 5) == [[0], [2], [4], [5]]
    system.close()


def test_the_next_group_is_read_during_the_current(tight: System) -> None:
    tight.source.reads.clear()
    groups = tight.pager.groups(0, ids(0, 1, 2, 3, 4, 5))
    first = next(groups)
    assert first.sum() == 1
    assert tight.arena.pages_in_flight or len(tight.source.reads) > 2
    assert sum(int(mask.sum()) for mask in groups) == EXPERTS - 1
    tight.check()


def test_tables_are_live_and_widths_outlive_eviction(tight: System) -> None:
    gate_up, widths = tight.pager.gate_up(0), tight.pager.gate_up(0).widths.copy()
    run(tight, 0, 0)
    table = gate_up.page_table
    assert (table[0] >= 0).all() and (table[1] == -1).all()
    run(tight, 0, 1, 2, 3)
    assert gate_up.page_table is table and (table[0] == -1).all()
    assert (gate_up.widths == widths).all() and (widths == 5).all()
    assert (tight.pager.down(1).widths == 8).all()


def test_histogram_counts_available_widths(roomy: System) -> None:
    run(roomy, 0, 0, 1)
    run(roomy, 1, 0)
    histogram = roomy.pager.width_histogram()
    assert sum(histogram.values()) == LAYERS * EXPERTS * 2
    # gate_up has 5 planes, down has 4 in even layers and 8 in odd ones.
    assert (histogram["5"], histogram["4"], histogram["8"]) == (3, 2, 1)


def test_lfu_keeps_the_frequent() -> None:
    system = make_system(FLOOR_PAGES * 3, policy="lfu")
    for expert in (0, 0, 0, 1, 1, 2, 3):
        run(system, 0, expert)
    assert resident(system, 0) == [0, 1, 3]
    system.close()


def test_unknown_policy_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        make_system(FLOOR_PAGES, policy="clairvoyant")


# --- one width for all ---


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6])
def test_only_what_a_width_needs_is_read_and_has_pages(width: int) -> None:
    system = make_system(FLOOR_PAGES * EXPERTS, width=width)
    for layer in range(LAYERS):
        run(system, layer, 0, 3, 5)  # checks page by page, and the integrity of table and arena
    parts = {layer: pair.portions(width) for layer, pair in enumerate(layouts())}
    assert system.source.last_extents == {
        (layer, kind, part.last_extent)
        for layer, portions in parts.items()
        for kind, part in zip(("gate_up", "down"), portions, strict=True)
    }
    pages = [sum(part.pages for part in portions) for portions in parts.values()]
    assert system.arena.owned_pages(Tenant.EXPERTS) == 3 * sum(pages)
    assert system.pager.bytes_paged_in == 3 * sum(pages) * PAGE
    assert pages[1] < EXPERT_PAGES[1] and pages[0] <= EXPERT_PAGES[0]
    system.close()


def test_a_width_is_committed_as_far_as_a_block_has_planes() -> None:
    system = make_system(FLOOR_PAGES * EXPERTS, width=5)
    gate_up, odd, even = system.pager.gate_up(0), system.pager.down(1), system.pager.down(0)
    assert set(gate_up.widths) == {5} and set(odd.widths) == {5} and set(even.widths) == {4}
    run(system, 0, 2)
    run(system, 1, 2)
    histogram = system.pager.width_histogram()
    assert (histogram["4"], histogram["5"], histogram["8"]) == (1, 3, 0)
    assert sum(histogram.values()) == LAYERS * EXPERTS * 2
    system.close()


def test_more_experts_fit_at_a_lower_width() -> None:
    quotas, floors = {}, {}
    for width in (0, 8, 4, 2, 1):
        system = make_system(FLOOR_PAGES * 3, width=width)
        quotas[width], floors[width] = system.pager.quotas, system.pager.floor_pages
        system.pager.warm()
        assert [len(resident(system, layer)) for layer in range(LAYERS)] == system.pager.quotas
        system.check()
        system.close()
    assert quotas[0] == quotas[8] == [3] * LAYERS and floors[0] == floors[8] == FLOOR_PAGES
    assert sum(quotas[0]) < sum(quotas[4]) < sum(quotas[2])
    assert floors[0] > floors[4] > floors[2] == floors[1], "the floor is read below it"


def test_below_the_floor_more_is_there_than_is_used() -> None:
    system = make_system(FLOOR_PAGES, width=1)
    run(system, 0, 4)
    assert set(system.pager.gate_up(0).widths) == {1}
    assert system.pager.width_histogram()["2"] == 2
    system.close()


def test_a_lower_width_pages_and_gives_as_the_full_one_does() -> None:
    system = make_system(FLOOR_PAGES * 2, width=3, source=FakeSource())
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            run(system, layer, expert, (expert + 1) % EXPERTS)
    system.pager.warm()
    system.pager.give_pages(10 * FLOOR_PAGES)
    assert [len(resident(system, layer)) for layer in range(LAYERS)] == [1] * LAYERS
    system.source.broken = {(1, 2)}
    with pytest.raises(ModelError):
        run(system, 1, 1, 2, 3)
    system.check()
    system.close()


@pytest.mark.parametrize("harm", ["a page too many", "a page too few", "a wish not granted"])
def test_a_table_at_a_lower_width_is_checked(harm: str) -> None:
    system = make_system(FLOOR_PAGES * EXPERTS, width=3)
    run(system, 1, 2)
    block, needed = system.pager.down(1), layouts()[1].portions(3)[1].pages
    assert 1 < needed < block.layout.page_count
    if harm == "a page too many":
        block.page_table[2, needed] = int(system.arena.total_pages) - 1
    elif harm == "a page too few":
        block.page_table[2, needed - 1] = -1
    else:
        block.widths[2] = 2
    with pytest.raises(AssertionError):
        system.pager.check_integrity()
    system.pager.close()


# --- quotas and giving ---


def test_capacity_moves_quotas_not_pages(roomy: System) -> None:
    roomy.pager.warm()
    before = roomy.arena.owned_pages(Tenant.EXPERTS)
    roomy.pager.set_capacity(FLOOR_PAGES * 2)
    assert roomy.pager.quotas == [2] * LAYERS
    assert roomy.arena.owned_pages(Tenant.EXPERTS) == before
    run(roomy, 0, 0, 1)
    assert len(resident(roomy, 0)) == EXPERTS
    with pytest.raises(ValueError, match="fewer"):
        roomy.pager.set_capacity(FLOOR_PAGES - 1)


def test_giving_evicts_evenly_down_to_the_floor(roomy: System) -> None:
    roomy.pager.warm()
    roomy.pager.set_capacity(FLOOR_PAGES)
    given = roomy.pager.give_pages(2 * FLOOR_PAGES)
    assert 2 * FLOOR_PAGES <= given < 2 * FLOOR_PAGES + max(EXPERT_PAGES)
    counts = [len(resident(roomy, layer)) for layer in range(LAYERS)]
    assert max(counts) - min(counts) <= 1
    rest = (EXPERTS - 1) * FLOOR_PAGES - given
    assert roomy.pager.give_pages(10 * FLOOR_PAGES) == rest
    assert [len(resident(roomy, layer)) for layer in range(LAYERS)] == [1] * LAYERS
    roomy.check()


def test_giving_spares_the_current_group(roomy: System) -> None:
    for mask in roomy.pager.groups(1, ids(1, 2, 3)):
        roomy.pager.give_pages(10 * FLOOR_PAGES)
        assert mask.sum() == 3 and resident(roomy, 1) == [1, 2, 3]
        assert all(is_intact(roomy.arena, roomy.pager, 1, expert) for expert in (1, 2, 3))
    roomy.check()


def test_a_layer_takes_from_those_above_their_quota(roomy: System) -> None:
    roomy.pager.warm()
    roomy.pager.give_pages(FLOOR_PAGES)
    roomy.arena.allocate(roomy.arena.free_pages, Tenant.KV)
    roomy.pager.set_capacity(FLOOR_PAGES * 4)
    for layer in range(LAYERS):
        for expert in range(EXPERTS):
            list(roomy.pager.groups(layer, ids(expert)))
    roomy.pager.check_integrity()
    assert roomy.arena.owned_pages(Tenant.EXPERTS) <= 5 * FLOOR_PAGES


# --- warming ---


def test_warm_fills_the_quota_in_file_order(tight: System) -> None:
    steps: list[tuple[int, int]] = []
    read = tight.pager.warm(lambda done, total: steps.append((done, total)))
    assert [resident(tight, layer) for layer in range(LAYERS)] == [[0, 1, 2]] * LAYERS
    assert read == 3 * FLOOR_PAGES * PAGE
    done = [step[0] for step in steps]
    assert done == sorted(done) and steps[-1] == (read, read)
    assert (tight.pager.misses, tight.pager.bytes_paged_in) == (0, 0)
    assert tight.pager.warm() == 0
    run(tight, 0, 0, 1, 2)
    assert tight.pager.hit_rate == 1.0


def test_warm_completes_what_is_there(tight: System) -> None:
    run(tight, 1, 5)
    tight.pager.warm()
    assert resident(tight, 1) == [0, 1, 5]
    tight.check()


def test_warm_stops_when_progress_raises(roomy: System) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        roomy.pager.warm(stop)
    roomy.check()
    run(roomy, 0, 0, 5)


# --- failures ---


def test_a_failed_read_rolls_back(tight: System) -> None:
    run(tight, 0, 0)
    tight.source.broken = {(0, 4)}
    with pytest.raises(ModelError, match=r"expert 4 of layer 0.*the disk says no") as error:
        run(tight, 0, 0, 3, 4)
    assert error.value.hint
    tight.check()
    assert resident(tight, 0) == [0]
    tight.source.broken.clear()
    run(tight, 0, 0, 3, 4)


def test_hits_before_a_failed_read_were_computed(tight: System) -> None:
    run(tight, 0, 0)
    tight.source.broken = {(0, 4)}
    groups = tight.pager.groups(0, ids(0, 4))
    assert next(groups).tolist() == [1, 0, 0, 0, 0, 0]
    with pytest.raises(ModelError):
        next(groups)
    tight.check()


def test_ebbtides_own_errors_pass_unchanged() -> None:
    system = make_system(FLOOR_PAGES, source=NetworkDown())
    with pytest.raises(ModelError, match=r"^gone$"):
        list(system.pager.groups(0, ids(0)))
    system.check()
    system.close()


def test_warm_fails_cleanly(roomy: System) -> None:
    roomy.source.broken = {(1, 2)}
    with pytest.raises(ModelError, match="layer 1"):
        roomy.pager.warm()
    roomy.check()
    assert len(resident(roomy, 0)) == EXPERTS


def abandon(system: System, layer: int, experts: Sequence[int]) -> Iterator[object]:
    """An event whose consumer stops after the first group."""
    groups = system.pager.groups(layer, ids(*experts))
    next(groups)
    return groups


@pytest.mark.parametrize("broken", [set(), {(0, 3)}])
def test_an_abandoned_event_leaves_nothing_open(tight: System, broken: set[tuple[int, int]]) -> None:
    run(tight, 0, 0)
    tight.source.broken = broken
    groups = abandon(tight, 0, [0, 3])
    groups.close()  # type: ignore[attr-defined]
    tight.check()
    assert (3 in resident(tight, 0)) == (not broken)


def test_an_event_after_one_that_is_still_suspended(tight: System) -> None:
    """An exception's traceback may keep a suspended event alive while the next one runs."""
    run(tight, 0, 0)
    groups = abandon(tight, 0, [0, 3])
    first = next(tight.pager.groups(0, ids(3, 5)))
    assert first[3] and is_intact(tight.arena, tight.pager, 0, 3)
    groups.close()  # type: ignore[attr-defined]
    tight.pager.settle()
    tight.check()


def test_closing_waits_for_open_reads(roomy: System) -> None:
    run(roomy, 0, 0)
    abandon(roomy, 0, [0, 1])
    roomy.close()
    roomy.check()


def test_layouts_of_the_fake_differ_by_layer() -> None:
    """What several tests above rely on."""
    assert len(set(EXPERT_PAGES)) == 2 and len(layouts()) == LAYERS
    assert len(layouts()[0].gate_up.extent_ends) > 1
    assert FakeSource().reads == []
