"""What a person does to single experts: pins hold, leave room, and give way to a conversation."""

from collections.abc import Iterator

import numpy as np
import pytest

from ebbtide.engine.errors import ModelError, UsageError
from ebbtide.engine.memory.provenance import Lane, Provenance
from tests.helpers.memory_fakes import EXPERTS, FLOOR_PAGES, KV, LAYERS, System, ids, is_intact, make_system


@pytest.fixture
def tight() -> Iterator[System]:
    """Three experts fit in each layer."""
    system = make_system(FLOOR_PAGES * 3)
    yield system
    system.close()


def route(system: System, layer: int, *experts: int) -> None:
    for _ in system.pager.groups(layer, ids(*experts)):
        pass
    system.check()


def resident(system: System, layer: int) -> list[int]:
    return [expert for expert, here in enumerate(system.pager.gate_up(layer).page_table[:, 0] >= 0) if here]


def test_a_pinned_expert_is_read_in_and_never_a_victim(tight: System) -> None:
    tight.pager.pin(0, 4)
    tight.check()
    assert resident(tight, 0) == [4] and is_intact(tight.arena, tight.pager, 0, 4)
    for expert in (0, 1, 2, 3, 5, 0, 1):
        route(tight, 0, expert)
        assert 4 in resident(tight, 0)
    tight.pager.unpin(0, 4)
    for expert in (0, 1, 2):
        route(tight, 0, expert)
    assert 4 not in resident(tight, 0)


def test_pinning_takes_the_place_of_another_when_the_layer_is_full(tight: System) -> None:
    route(tight, 0, 0, 1, 2)
    tight.pager.pin(0, 5)
    tight.check()
    assert len(resident(tight, 0)) == 3 and 5 in resident(tight, 0)


def test_one_slot_stays_free_of_pins(tight: System) -> None:
    tight.pager.pin(1, 0)
    tight.pager.pin(1, 3)
    tight.pager.pin(1, 3)
    with pytest.raises(UsageError, match="keeps 3 experts, 2 of them pinned"):
        tight.pager.pin(1, 5)
    assert np.argwhere(tight.pager.pins()).tolist() == [[1, 0], [1, 3]]
    route(tight, 1, *range(EXPERTS))
    assert {0, 3} <= set(resident(tight, 1))


def test_at_the_floor_nothing_can_be_pinned() -> None:
    system = make_system(FLOOR_PAGES)
    with pytest.raises(UsageError, match="keeps 1 expert, 0 of them pinned"):
        system.pager.pin(0, 0)
    system.close()


def test_a_pin_that_cannot_be_read_changes_nothing(tight: System) -> None:
    tight.source.broken = {(2, 1)}
    with pytest.raises(ModelError):
        tight.pager.pin(2, 1)
    tight.check()
    assert not tight.pager.pins().any()


@pytest.mark.parametrize(("layer", "expert"), [(-1, 0), (LAYERS, 0), (0, -1), (0, EXPERTS)])
def test_places_that_are_not_there(tight: System, layer: int, expert: int) -> None:
    for change in (tight.pager.pin, tight.pager.unpin, tight.pager.evict):
        with pytest.raises(UsageError, match="There is no expert"):
            change(layer, expert)


def test_evicting_by_hand(tight: System) -> None:
    route(tight, 0, 1, 2)
    tight.pager.evict(0, 1)
    tight.check()
    assert resident(tight, 0) == [2]
    with pytest.raises(UsageError, match="not in fast memory"):
        tight.pager.evict(0, 1)
    tight.pager.pin(0, 2)
    with pytest.raises(UsageError, match="is pinned"):
        tight.pager.evict(0, 2)


def test_pins_give_way_to_a_growing_context(tight: System) -> None:
    tight.pager.warm()
    tight.pager.pin(0, 0)
    tight.pager.pin(0, 1)
    sequence = tight.pool.new_sequence()
    while True:
        tight.pool.extend(sequence, KV.tokens, Provenance(Lane.PREFILL))
        tight.check()
        if tight.pager.quotas == [1] * LAYERS:
            break
    assert tight.pager.lost_pins == [(0, 1), (0, 0)]
    assert not tight.pager.pins().any()
    assert sum(tight.pager.given) > 0


def test_uses_count_events(tight: System) -> None:
    for experts in ((0, 1), (1,), (1, 5)):
        route(tight, 2, *experts)
    assert tight.pager.uses()[2].tolist() == [1, 3, 0, 0, 0, 1]
    assert not tight.pager.uses()[:2].any()
