import pytest

from ebbtide.engine.errors import ContextError, ModelError
from ebbtide.engine.memory.arena import Arena, Tenant
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.memory.tenancy import NoExperts, Tenancy
from tests.helpers.memory_fakes import (
    EXPERT_PAGES,
    EXPERTS,
    FLOOR_PAGES,
    KV,
    LAYERS,
    PAGE,
    System,
    ids,
    make_system,
)

T = KV.tokens
EXACT = Provenance(Lane.PREFILL)


def kv_pages(system: System) -> int:
    return system.arena.owned_pages(Tenant.KV)


def expert_pages(system: System) -> int:
    return system.arena.owned_pages(Tenant.EXPERTS)


def finish(system: System, tokens: range) -> None:
    """Compute a prompt and leave it in the prefix cache."""
    sequence = system.prefixes.begin(tokens, exact=True)
    system.pool.extend(sequence, len(tokens) - sequence.length, EXACT)
    system.prefixes.insert(tokens, sequence)
    system.pool.release(sequence)
    system.check()


def test_kv_takes_free_pages_then_experts_down_to_their_floor() -> None:
    system = make_system(FLOOR_PAGES * 3 + 2 * LAYERS, reserve=2 * LAYERS)
    system.pager.warm()
    assert expert_pages(system) == 3 * FLOOR_PAGES
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 2 * T, EXACT)
    assert expert_pages(system) == 3 * FLOOR_PAGES
    while sequence.length < 300 and kv_pages(system) + LAYERS <= system.tenancy.kv_limit_pages:
        system.pool.extend(sequence, T, EXACT)
        system.check()
        assert expert_pages(system) >= FLOOR_PAGES
        assert sum(system.pager.quotas) >= LAYERS
    assert system.pager.quotas == [1] * LAYERS
    with pytest.raises(ContextError, match="memory is full"):
        system.pool.extend(sequence, T, EXACT)
    system.check()
    for layer in range(LAYERS):
        assert len(list(system.pager.groups(layer, ids(0, 3, 5)))) == 3
    system.check()
    system.close()


def test_the_floor_is_kept_even_before_experts_are_read() -> None:
    """Free pages that belong to the experts' floor are not for KV."""
    system = make_system(FLOOR_PAGES + 2 * LAYERS)
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 2 * T, EXACT)
    with pytest.raises(ContextError):
        system.pool.extend(sequence, 1, EXACT)
    for layer in range(LAYERS):
        assert list(system.pager.groups(layer, ids(4)))
    system.check()
    system.close()


def test_experts_get_their_pages_back() -> None:
    system = make_system(FLOOR_PAGES * 3)
    system.pager.warm()
    before = system.pager.quotas
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 10 * T, EXACT)
    assert system.pager.quotas < before
    system.pool.release(sequence)
    assert system.pager.quotas == before
    system.pager.warm()
    assert expert_pages(system) == 3 * FLOOR_PAGES
    system.close()


def test_the_reserve_stays_free_of_experts() -> None:
    system = make_system(FLOOR_PAGES * 3, reserve=4 * LAYERS)
    system.pager.warm()
    assert system.arena.free_pages >= 4 * LAYERS
    before = expert_pages(system)
    system.pool.extend(system.pool.new_sequence(), 4 * T, EXACT)
    assert expert_pages(system) == before
    system.close()


def test_retained_prefixes_outlive_experts() -> None:
    system = make_system(FLOOR_PAGES * 3)
    system.pager.warm()
    finish(system, range(5 * T))
    finish(system, range(1000, 1000 + 5 * T))
    assert kv_pages(system) == 10 * LAYERS
    live = system.pool.new_sequence()
    for _ in range(5):
        system.pool.extend(live, T, EXACT)
    assert kv_pages(system) == 15 * LAYERS, "nothing dropped while experts could give"
    assert expert_pages(system) < 3 * FLOOR_PAGES
    fits = system.tenancy.kv_limit_pages // LAYERS
    while len(live.blocks) < 10:
        system.pool.extend(live, T, EXACT)
        system.check()
    assert kv_pages(system) <= fits * LAYERS
    system.pool.extend(live, 5 * T, EXACT)
    assert len(list(system.prefixes.blocks())) < 10, "prefixes gave way at the experts' floor"
    system.check()
    system.close()


def test_prefixes_go_before_experts_where_that_is_wanted() -> None:
    system = make_system(FLOOR_PAGES * 3, retain_prefixes=False)
    finish(system, range(5 * T))
    system.pager.warm()
    before = expert_pages(system)
    live = system.pool.new_sequence()
    system.pool.extend(live, system.arena.free_pages // LAYERS * T, EXACT)
    assert expert_pages(system) == before
    system.pool.extend(live, 3 * T, EXACT)
    assert expert_pages(system) == before
    assert len(list(system.prefixes.blocks())) < 5
    system.check()
    system.close()


def test_prefixes_in_use_are_not_counted_on() -> None:
    system = make_system(FLOOR_PAGES + 6 * LAYERS)
    finish(system, range(4 * T))
    live = system.prefixes.begin(range(5 * T), exact=True)
    with pytest.raises(ContextError):
        system.pool.extend(live, 3 * T, EXACT)
    system.pool.extend(live, 2 * T, EXACT)
    system.check()
    system.close()


def test_a_dense_model_has_one_tenant() -> None:
    arena = Arena(PAGE, 10)
    tenancy = Tenancy(arena, NoExperts(), reserve_pages=4)
    assert tenancy.kv_limit_pages == 10
    pages = tenancy.take(10)
    with pytest.raises(ContextError):
        tenancy.take(1)
    tenancy.give_back(pages)
    assert arena.free_pages == 10


def test_all_experts_and_a_little_kv_leave_nobody_out() -> None:
    system = make_system(FLOOR_PAGES * EXPERTS + LAYERS, reserve=LAYERS)
    system.pager.warm()
    system.pool.extend(system.pool.new_sequence(), T, EXACT)
    assert expert_pages(system) == FLOOR_PAGES * EXPERTS and system.arena.free_pages == 0
    system.close()


def test_warming_after_kv_took_pages_makes_room_first() -> None:
    """One layer is above its new quota while another is below: the first gives to the second."""
    system = make_system(FLOOR_PAGES + 3 * LAYERS)
    system.pager.warm()
    system.source.broken = {(1, 1)}
    with pytest.raises(ModelError):
        list(system.pager.groups(1, ids(1)))  # the failed read leaves layer 1 without an expert
    system.pool.extend(system.pool.new_sequence(), 1, EXACT)
    assert system.arena.free_pages < EXPERT_PAGES[1]
    system.pager.warm()
    assert system.pager.quotas == [1] * LAYERS
    system.check()
    system.close()
