import numpy as np
import pytest

from ebbtide.engine.errors import ContextError
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.kv import KvSequence
from ebbtide.engine.memory.provenance import Lane, Provenance
from tests.helpers.memory_fakes import FLOOR_PAGES, KV, LAYERS, PAGE, System, make_system, page_view

T = KV.tokens
PREFILL = Provenance(Lane.PREFILL)
DECODE = Provenance(Lane.DECODE)
BLURRED = Provenance(Lane.DECODE, width_epoch=3, exact=False)


@pytest.fixture
def system() -> System:
    return make_system(FLOOR_PAGES + 20 * LAYERS)


def write(system: System, sequence: KvSequence, count: int, value: int) -> None:
    """Extend by `count` positions and write `value` into the byte of each, in every layer."""
    start = sequence.length
    system.pool.extend(sequence, count, PREFILL)
    for position in range(start, sequence.length):
        for layer in range(LAYERS):
            page = int(sequence.table[layer, position // T])
            page_view(system.arena, page)[position % T] = value + layer
    check(system)


def contents(system: System, sequence: KvSequence, layer: int = 0) -> list[int]:
    pages = sequence.table[layer]
    places = ((int(pages[position // T]), position % T) for position in range(sequence.length))
    return [int(page_view(system.arena, page)[offset]) - layer for page, offset in places]


def check(system: System) -> None:
    system.pool.check_integrity(system.prefixes.blocks())
    system.arena.check_integrity()


def test_one_page_per_layer_and_block(system: System) -> None:
    sequence = system.pool.new_sequence()
    for length, blocks in ((1, 1), (T - 1, 1), (T, 1), (T + 1, 2), (3 * T, 3)):
        system.pool.extend(sequence, length - sequence.length, PREFILL)
        assert sequence.length == length and len(sequence.blocks) == blocks
        assert system.arena.owned_pages(Tenant.KV) == blocks * LAYERS
        assert (sequence.table[:, :blocks] >= 0).all() and (sequence.table[:, blocks:] == -1).all()
        check(system)
    pages = sequence.table[sequence.table >= 0]
    assert len(set(pages.tolist())) == pages.size
    assert sequence.table.dtype == np.int32 and sequence.table.flags.c_contiguous
    assert all(sequence.table[layer].flags.c_contiguous for layer in range(LAYERS))


def test_extending_by_nothing(system: System) -> None:
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 0, PREFILL)
    assert sequence.length == 0 and not sequence.blocks
    system.pool.extend(sequence, 5, PREFILL)
    other = system.pool.fork(sequence)
    system.pool.extend(other, 0, DECODE)
    assert other.blocks == sequence.blocks and other.blocks[0].provenance == PREFILL
    check(system)


def test_new_pages_hold_no_old_bytes(system: System) -> None:
    first = system.pool.new_sequence()
    write(system, first, 2 * T, 7)
    system.pool.release(first)
    second = system.pool.new_sequence()
    system.pool.extend(second, 1, PREFILL)
    assert not any(page_view(system.arena, int(page)).any() for page in second.table[:, 0])


def test_release_gives_everything_back(system: System) -> None:
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 50, PREFILL)
    system.pool.release(sequence)
    assert system.arena.owned_pages(Tenant.KV) == 0
    check(system)


def test_forks_share_until_they_part(system: System) -> None:
    first = system.pool.new_sequence()
    write(system, first, T + 5, 1)
    second = system.pool.fork(first)
    assert system.arena.owned_pages(Tenant.KV) == 2 * LAYERS
    write(system, first, 3, 2)  # into the shared tail, past what both rely on
    assert first.blocks[1] is second.blocks[1]
    write(system, second, 4, 3)  # would write over the other's: copies
    assert first.blocks[1] is not second.blocks[1] and first.blocks[0] is second.blocks[0]
    assert system.arena.owned_pages(Tenant.KV) == 3 * LAYERS
    for layer in range(LAYERS):
        assert contents(system, first, layer) == [1] * (T + 5) + [2] * 3
        assert contents(system, second, layer) == [1] * (T + 5) + [3] * 4


def test_the_last_holder_writes_in_place(system: System) -> None:
    first = system.pool.new_sequence()
    write(system, first, 5, 1)
    second = system.pool.fork(first)
    write(system, first, 3, 2)
    system.pool.release(first)
    block = second.blocks[0]
    write(system, second, 6, 3)
    assert second.blocks[0] is block
    assert contents(system, second) == [1] * 5 + [3] * 6


def test_truncate_then_grow(system: System) -> None:
    sequence = system.pool.new_sequence()
    write(system, sequence, 3 * T, 1)
    kept = system.pool.fork(sequence)
    system.pool.truncate(sequence, T + 3)
    assert len(sequence.blocks) == 2
    check(system)
    write(system, sequence, T, 2)
    assert contents(system, sequence) == [1] * (T + 3) + [2] * T
    assert contents(system, kept) == [1] * (3 * T)
    system.pool.truncate(sequence, 0)
    check(system)
    with pytest.raises(ValueError, match="cannot cut"):
        system.pool.truncate(sequence, 1)


def test_beyond_the_context(system: System) -> None:
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, 319, PREFILL)
    with pytest.raises(ContextError, match=r"321 tokens.*320") as error:
        system.pool.extend(sequence, 2, PREFILL)
    assert error.value.exit_code == 5 and error.value.hint
    system.pool.extend(sequence, 1, PREFILL)
    check(system)


def test_a_full_pool_changes_nothing() -> None:
    system = make_system(FLOOR_PAGES + 4 * LAYERS)
    first, second = system.pool.new_sequence(), system.pool.new_sequence()
    write(system, first, 3 * T, 1)
    write(system, second, 5, 2)
    table = second.table.copy()
    with pytest.raises(ContextError, match="memory is full"):
        system.pool.extend(second, T, PREFILL)
    assert second.length == 5 and (second.table == table).all()
    check(system)
    fork = system.pool.fork(second)
    write(system, second, 1, 3)
    with pytest.raises(ContextError):
        system.pool.extend(fork, 1, PREFILL)  # needs a copy
    check(system)
    system.pool.release(first)
    write(system, fork, 1, 4)
    assert contents(system, fork) == [2] * 5 + [4] and contents(system, second) == [2] * 5 + [3]


def test_provenance_is_kept_per_block(system: System) -> None:
    sequence = system.pool.new_sequence()
    system.pool.extend(sequence, T + 2, PREFILL)
    system.pool.extend(sequence, 2, DECODE)
    system.pool.extend(sequence, T, BLURRED)
    marks = [block.provenance for block in sequence.blocks]
    assert marks[0] == PREFILL
    assert marks[1] == Provenance(Lane.PREFILL | Lane.DECODE, width_epoch=3, exact=False)
    assert marks[2] == BLURRED


def test_inexact_tokens_do_not_stain_a_shared_block(system: System) -> None:
    exact = system.pool.new_sequence()
    write(system, exact, 5, 1)
    other = system.pool.fork(exact)
    system.pool.extend(other, 1, BLURRED)
    assert exact.blocks[0].provenance == PREFILL and not other.blocks[0].provenance.exact
    assert contents(system, other)[:5] == [1] * 5
    check(system)


def test_formats_do_not_mix(system: System) -> None:
    with pytest.raises(ValueError, match="fp8"):
        system.pool.extend(system.pool.new_sequence(), 1, Provenance(Lane.DECODE, format="fp8"))


def test_integrity_notices_damage() -> None:
    for damage in range(4):
        system = make_system(FLOOR_PAGES + 20 * LAYERS)
        sequence = system.pool.new_sequence()
        system.pool.extend(sequence, T + 1, PREFILL)
        if damage == 0:
            sequence.blocks[0].refs += 1
        elif damage == 1:
            sequence.table[1, 0] = sequence.table[0, 0]
        elif damage == 2:
            sequence.blocks[1].filled = 0
        else:
            sequence.length = 3 * T
        with pytest.raises(AssertionError):
            system.pool.check_integrity()


def test_a_page_of_the_fake_holds_a_block() -> None:
    """What the byte-per-position tests above rely on."""
    assert T * KV.heads * KV.head_dim * 2 * 2 == PAGE
