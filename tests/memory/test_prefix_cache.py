from collections.abc import Sequence

import pytest

from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.kv import KvSequence
from ebbtide.engine.memory.provenance import Lane, Provenance
from tests.helpers.memory_fakes import FLOOR_PAGES, KV, LAYERS, System, make_system, page_view

T = KV.tokens
EXACT = Provenance(Lane.PREFILL)
BLURRED = Provenance(Lane.PREFILL, width_epoch=1, exact=False)


@pytest.fixture
def system() -> System:
    return make_system(FLOOR_PAGES + 40 * LAYERS, max_tokens=640)


def answer(
    system: System, tokens: Sequence[int], provenance: Provenance = EXACT, *, exact: bool = True
) -> int:
    """One request: reuse, compute the rest (each position's byte is its token id), keep. Tokens reused."""
    sequence = system.prefixes.begin(tokens, exact=exact)
    reused = sequence.length
    assert read(system, sequence) == [token % 251 for token in tokens[:reused]]
    compute(system, sequence, tokens, provenance)
    system.prefixes.insert(tokens, sequence)
    system.pool.release(sequence)
    check(system)
    return reused


def compute(system: System, sequence: KvSequence, tokens: Sequence[int], provenance: Provenance) -> None:
    start = sequence.length
    system.pool.extend(sequence, len(tokens) - start, provenance)
    for position in range(start, len(tokens)):
        page = int(sequence.table[LAYERS - 1, position // T])
        page_view(system.arena, page)[position % T] = tokens[position] % 251


def read(system: System, sequence: KvSequence) -> list[int]:
    pages = sequence.table[LAYERS - 1]
    return [int(page_view(system.arena, int(pages[p // T]))[p % T]) for p in range(sequence.length)]


def check(system: System) -> None:
    system.prefixes.check_integrity()
    system.pool.check_integrity(system.prefixes.blocks())
    system.arena.check_integrity()


def cached_blocks(system: System) -> int:
    return len(list(system.prefixes.blocks()))


def test_nothing_is_cached_at_first(system: System) -> None:
    assert answer(system, range(10)) == 0


def test_the_last_token_is_always_computed(system: System) -> None:
    answer(system, range(2 * T))
    assert answer(system, range(2 * T)) == 2 * T - 1
    assert answer(system, [0]) == 0
    assert answer(system, [0, 1]) == 1


def test_the_next_turn_reuses_the_whole_chat_so_far(system: System) -> None:
    chat = list(range(T + 5))
    answer(system, chat)
    for turn in range(1, 6):
        longer = chat + [100 * turn + i for i in range(7)]
        assert answer(system, longer) == len(chat)
        chat = longer
    assert cached_blocks(system) == -(-len(chat) // T)


def test_an_edited_turn_reuses_up_to_the_edit(system: System) -> None:
    answer(system, range(3 * T))
    for edit in (T - 1, T, T + 3, 2 * T + 5):
        edited = [*range(edit), *range(500, 530)]
        assert answer(system, edited) == edit
    assert answer(system, range(3 * T)) == 3 * T - 1


def test_forks_of_one_tail_part_cleanly(system: System) -> None:
    stem = list(range(T + 6))
    answer(system, stem)
    forks = [[*stem, *range(100 * n, 100 * n + 5)] for n in range(1, 5)]
    assert [answer(system, fork) for fork in forks] == [len(stem)] * 4
    assert [answer(system, fork) for fork in forks] == [len(fork) - 1 for fork in forks]
    assert cached_blocks(system) == 1 + 4


def test_two_live_requests_on_one_prefix(system: System) -> None:
    stem = list(range(T + 6))
    answer(system, stem)
    ids = [[*stem, *range(100 * n, 100 * n + 20)] for n in (1, 2)]
    live = [system.prefixes.begin(tokens, exact=True) for tokens in ids]
    for sequence, tokens in zip(live, ids, strict=True):
        compute(system, sequence, tokens, EXACT)
        check(system)
    for sequence, tokens in zip(live, ids, strict=True):
        assert read(system, sequence) == [token % 251 for token in tokens]
        system.prefixes.insert(tokens, sequence)
        system.pool.release(sequence)
    assert [answer(system, tokens) for tokens in ids] == [len(tokens) - 1 for tokens in ids]


def test_a_shorter_chat_is_covered_by_a_longer_one(system: System) -> None:
    answer(system, range(T + 9))
    before = cached_blocks(system)
    assert answer(system, range(T + 4)) == T + 3
    assert answer(system, range(7)) == 6
    assert cached_blocks(system) == before


def test_a_cancelled_request_leaves_its_valid_prefix(system: System) -> None:
    sequence = system.prefixes.begin(range(50), exact=True)
    compute(system, sequence, range(50), EXACT)
    system.pool.truncate(sequence, 29)
    system.prefixes.insert(range(50), sequence)
    system.pool.release(sequence)
    assert answer(system, range(60)) == 29


def test_empty_sequences_and_too_few_ids(system: System) -> None:
    sequence = system.pool.new_sequence()
    system.prefixes.insert([], sequence)
    assert cached_blocks(system) == 0
    system.pool.extend(sequence, 3, EXACT)
    with pytest.raises(ValueError, match="3 positions but 2"):
        system.prefixes.insert([1, 2], sequence)


def test_exact_requests_reuse_exact_blocks_only(system: System) -> None:
    chat = list(range(2 * T + 4))
    answer(system, chat, BLURRED, exact=False)
    assert answer(system, chat, BLURRED, exact=False) == len(chat) - 1
    assert answer(system, chat, EXACT) == 0  # and replaces what was there
    assert answer(system, chat, EXACT) == len(chat) - 1


def test_an_exact_prefix_survives_an_inexact_continuation(system: System) -> None:
    stem = list(range(T + 4))
    answer(system, stem, EXACT)
    longer = [*stem, *range(200, 230)]
    assert answer(system, longer, BLURRED, exact=False) == len(stem)
    assert answer(system, [*stem, 999], EXACT) == len(stem)
    assert answer(system, longer, BLURRED, exact=False) == len(longer) - 1


def test_least_recent_leaves_go_first(system: System) -> None:
    chats = [[1000 * n + i for i in range(2 * T)] for n in range(3)]
    for chat in chats:
        answer(system, chat)
    answer(system, chats[0])
    assert system.prefixes.drop(1) == LAYERS
    check(system)
    assert cached_blocks(system) == 5
    assert system.prefixes.drop(2 * LAYERS) == 2 * LAYERS
    # chat 1 lost its second block, then its first and chat 2's second were equally old leaves in order.
    assert answer(system, chats[0]) == 2 * T - 1
    assert answer(system, chats[1]) == 0
    assert answer(system, chats[2]) == T


def test_what_is_in_use_is_not_dropped(system: System) -> None:
    answer(system, range(2 * T))
    answer(system, range(700, 700 + T))
    live = system.prefixes.begin(range(3 * T), exact=True)
    assert system.prefixes.drop(100) == LAYERS
    assert cached_blocks(system) == 2
    system.pool.release(live)
    assert system.prefixes.drop(100) == 2 * LAYERS
    assert system.arena.owned_pages(Tenant.KV) == 0
    check(system)


def test_clear_keeps_what_sequences_use(system: System) -> None:
    answer(system, range(2 * T))
    live = system.prefixes.begin(range(3 * T), exact=True)
    system.prefixes.clear()
    assert cached_blocks(system) == 0
    assert read(system, live) == [token % 251 for token in range(2 * T)]
    check(system)
    system.pool.release(live)
    assert system.arena.owned_pages(Tenant.KV) == 0


def test_integrity_notices_damage(system: System) -> None:
    answer(system, range(T + 2))
    next(iter(system.prefixes.blocks())).filled = 1
    with pytest.raises(AssertionError):
        system.prefixes.check_integrity()
