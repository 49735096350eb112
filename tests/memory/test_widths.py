"""The table of widths: what may be committed, and what kernels and readers see of it."""

import numpy as np
import pytest

from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.slow import KINDS
from tests.helpers.elastic import even, pages_of, picture
from tests.helpers.memory_fakes import EXPERTS, FLOOR_PAGES, LAYERS, layouts, make_system
from tests.helpers.memory_fakes import run_event as run


@pytest.mark.parametrize("harm", ["0", "too wide", "too few blocks", "other numbers", "a page too few"])
def test_what_cannot_be_is_refused_and_changes_nothing(harm: str) -> None:
    system = make_system(FLOOR_PAGES * EXPERTS, width=3)
    run(system, 1, 2)
    table, widths = system.pager._table, even(3)
    before = picture(system.pager._table)
    if harm == "0":
        widths[0, 0, 0] = 0
    elif harm == "too wide":
        widths[0, 1, 0] = 5
    elif harm == "too few blocks":
        widths = widths[:, :, 1:]
    elif harm == "other numbers":
        widths = widths.astype(np.int8)
    else:
        widths[0, 0, 0], widths[1, 1, 2] = 2, 4
    with pytest.raises(ValueError, match=r"width|planes"):
        table.commit(widths)
    assert picture(system.pager._table) == before
    system.check()
    system.close()


def test_kernels_see_a_commit_and_only_a_changed_vector_counts() -> None:
    system = make_system(FLOOR_PAGES * EXPERTS)
    table, live = system.pager._table, system.pager.gate_up(1).widths
    assert table.is_exact and table.epoch == 0
    table.commit(even(8))
    assert table.epoch == 0
    widths = even(8)
    widths[1, 0, 3] = 2
    table.commit(widths)
    assert table.epoch == 1 and not table.is_exact and live.tolist() == [5, 5, 5, 2, 5, 5]
    table.commit(even(8))
    assert table.epoch == 2 and table.is_exact and system.pager.gate_up(1).widths is live
    system.close()


def test_two_blocks_of_an_expert_and_two_experts_of_a_layer_may_differ() -> None:
    system = make_system(FLOOR_PAGES * EXPERTS)
    widths = even(8)
    widths[1, 0, 2], widths[1, 1, 2], widths[1, 0, 3] = 2, 7, 4
    system.pager.set_widths(widths)
    for expert in range(EXPERTS):
        run(system, 1, expert)
        wanted = [
            layout.pages_at_width(int(widths[1, kind, expert])) for kind, layout in enumerate(layouts()[1])
        ]
        assert pages_of(system, 1, expert) == wanted
    assert system.pager._table.available[1].tolist() == widths[1].tolist()
    assert {(kind, first) for _, _, kind, first, _ in system.source.extents} == {(kind, 0) for kind in KINDS}
    system.close()


def test_planes_that_are_kept_cost_no_read_and_go_when_their_pages_are_wanted() -> None:
    system = make_system(FLOOR_PAGES * EXPERTS)
    system.pager.warm()
    owned, reads = system.arena.owned_pages(Tenant.EXPERTS), len(system.source.reads)
    system.pager.set_widths(even(2), keep=True)
    assert set(system.pager.down(1).widths) == {2} and system.arena.owned_pages(Tenant.EXPERTS) == owned
    system.check()
    system.pager.set_widths(even(8))
    assert set(system.pager.down(1).widths) == {8} and len(system.source.reads) == reads
    system.check()
    system.pager.set_widths(even(2), keep=True)
    counts = system.pager.resident_count
    assert system.pager.give_pages(1) > FLOOR_PAGES and system.pager.resident_count == counts
    assert system.pager.given == [0] * LAYERS
    system.check()
    system.close()


def test_what_is_kept_is_given_up_before_an_expert_is() -> None:
    system = make_system(FLOOR_PAGES * 2)
    system.pager.warm()
    system.pager.set_widths(even(2), keep=True)
    run(system, 0, 5)
    assert system.pager._table.resident_experts(0) == [0, 1, 5]
    assert system.pager.resident_count == 2 * LAYERS + 1
    system.close()
