"""Figures of the panel: speed over the last minute, bytes that reconcile, counts of widths."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ebbtide.app.panel.accounts import card_parts, engine_parts, machine_parts, process_account
from ebbtide.app.panel.grid import Place
from ebbtide.app.panel.inventory import facts, width_classes
from ebbtide.app.panel.sparks import Sparks, sparkline
from ebbtide.app.panel.traces import SECONDS, Recorder, Trace
from ebbtide.engine.messages import Machine
from tests.helpers.panel_states import MIB, feed, machine, memory, on_card, residency, snapshot


def test_rates_come_from_differences() -> None:
    recorder = Recorder()
    for step in range(9):  # two seconds, four snapshots each
        recorder.take(snapshot(step * 10, step * 90, step * 10, step * MIB), 100.0 + step / 4)
    traces = recorder.traces(101.9)
    assert traces.decode_tok_s.now == pytest.approx(40)
    assert traces.decode_tok_s.values[-2:] == [pytest.approx(40), pytest.approx(40)]
    assert traces.hit_rate.now == pytest.approx(0.9)
    assert traces.moved_bytes_s.now == pytest.approx(4 * MIB)
    assert traces.misses_per_token == pytest.approx(1) and traces.bytes_per_token == pytest.approx(MIB / 10)
    assert len(traces.decode_tok_s.values) == SECONDS and traces.decode_tok_s.values[0] is None


@pytest.mark.parametrize("cells", [1, 7, 13, 19, 60, 90])
def test_a_line_of_the_last_minute_shows_all_of_it(cells: int) -> None:
    """However few cells it has: the peak is there, at its place."""
    values: list[float | None] = [None] * SECONDS
    values[3], values[40] = 8.0, 2.0
    row = sparkline(Trace(values, None, 8.0), 8.0, cells, "expert")
    shown = "".join(cell.text for cell in row)[-min(cells, SECONDS) :]
    assert len(row) == cells and shown.count("█") == 1
    assert abs(shown.index("█") - 3 * min(cells, SECONDS) / SECONDS) <= 1


async def test_figures_stand_below_each_other_however_long_they_are() -> None:
    state = feed()
    lines = Sparks(state)
    for most in (1.0, 1023.9 * MIB):
        state._recorder._most["moved_bytes_s"] = most
        rows = ["".join(cell.text for cell in row) for row in lines.rows(96, 3)]
        assert len({row.index("max") for row in rows}) == 1


def test_snapshots_that_arrive_late_and_together_do_not_raise_the_speed() -> None:
    """40 tok/s by the engine's clock; the application was busy and got several at once."""
    recorder = Recorder()
    for step in range(9):
        arrived = 100.0 + step / 4 if step < 4 else 102.0 + step / 1000
        made = structs.replace(snapshot(step * 10, 0, 0, 0), at_s=7.0 + step / 4)
        recorder.take(made, arrived)
    assert recorder.traces(102.5).decode_tok_s.most == pytest.approx(40)


def test_time_between_requests_counts_for_nothing() -> None:
    recorder = Recorder()
    recorder.take(snapshot(0, 0, 0, 0), 100.0)
    recorder.take(snapshot(10, 10, 0, 0), 100.5)
    recorder.take(snapshot(0, 10, 0, 0, request_id=2), 109.0)
    recorder.take(snapshot(20, 30, 0, 0, request_id=2), 110.0)
    traces = recorder.traces(110.5)
    assert traces.decode_tok_s.values[-6] is None
    assert traces.decode_tok_s.most == pytest.approx(20)


def test_the_maximum_outlives_the_minute() -> None:
    recorder = Recorder()
    recorder.take(snapshot(0, 0, 0, 0), 100.0)
    recorder.take(snapshot(80, 0, 0, 0), 101.0)
    recorder.take(snapshot(0, 0, 0, 0, request_id=2), 300.0)
    recorder.take(snapshot(10, 0, 0, 0, request_id=2), 301.0)
    trace = recorder.traces(301.0).decode_tok_s
    assert trace.most == pytest.approx(80) and max(value or 0 for value in trace.values) == pytest.approx(10)
    assert recorder.traces(500.0).decode_tok_s.now is None


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 38), st.integers(0, 300 * MIB))
def test_every_byte_of_the_process_has_a_name(process: int, spare: int, free: int) -> None:
    ledger = memory(free_bytes=free)
    account = process_account(ledger, machine(process_bytes=process), spare)
    assert account is not None and min(account) >= 0
    named = account.ledger_bytes + account.spare_bytes + account.runtime_bytes - account.untouched_bytes
    assert named == process
    assert account.runtime_bytes == 0 or account.untouched_bytes == 0


def test_the_bars_add_up() -> None:
    account = process_account(memory(), machine(), 5 * MIB)
    parts = {part.name: part.nbytes for part in engine_parts(memory(), account)}
    assert sum(parts.values()) == 300 * MIB + parts["runtime"]
    assert parts["runtime"] == (400 - 270 - 5) * MIB
    assert sum(part.nbytes for part in machine_parts(machine())) == 16000 * MIB


def test_on_a_card_the_driver_counts() -> None:
    """The process's ordinary memory is not what the budget is about there."""
    account = process_account(memory(), on_card(), 5 * MIB)
    assert account is not None and not account.with_others
    assert account.process_bytes == 350 * MIB and account.runtime_bytes == (350 - 270 - 5) * MIB
    sizes = {part.word: part.nbytes // MIB for part in card_parts(on_card())}
    assert sizes == {"ebbtide": 350, "other programs": 2000, "free": 7650}
    assert machine_parts(on_card()) == machine_parts(machine())


def test_a_driver_that_does_not_tell_programs_apart() -> None:
    shared = on_card(card_own_bytes=None)
    account = process_account(memory(), shared, 0)
    assert account is not None and account.with_others and account.process_bytes == 2350 * MIB
    assert engine_parts(memory(), account)[-2].word == "others"
    assert {part.word: part.nbytes // MIB for part in card_parts(shared)} == {"taken": 2350, "free": 7650}


def test_a_card_of_which_nobody_says_how_much_is_free() -> None:
    silent = on_card(card_own_bytes=None, card_free_bytes=None)
    assert process_account(memory(), silent, 0) is None
    assert card_parts(silent) == card_parts(machine()) == []


def test_what_the_system_does_not_say_is_no_number() -> None:
    assert process_account(memory(), None, 0) is None
    assert process_account(memory(), Machine(), 0) is None
    assert machine_parts(Machine(process_bytes=1, total_bytes=2)) == []


def test_widths_are_counted_by_blocks() -> None:
    """An expert's two blocks may differ; an absent one has none, whatever it will be read with."""
    picture = structs.replace(
        residency(2, 4, lambda layer, expert: [8, 4, 4, 0][expert]),
        block_widths=bytes([8, 4, 5, 8, 8, 6, 4, 5]) + bytes([8, 4, 5, 8, 8, 6, 4, 3]),
        width_bytes=[0, 0, 0, 0, 30, 20, 20, 0, 60],
    )
    assert [tuple(entry) for entry in width_classes(picture)] == [
        (8, 4, 60),
        (6, 2, 20),
        (5, 2, 20),
        (4, 4, 30),
        (0, 4, 0),
    ]
    assert width_classes(residency(2, 0)) == []


def test_facts_of_an_expert() -> None:
    known = facts(residency(3, 4, pinned=[(2, 1)]), Place(2, 1))
    assert (known.width, known.nbytes, known.uses, known.pinned) == (8, 2 * MIB, 9, True)
    assert known.share == pytest.approx(9 / (8 + 9 + 10 + 11))
    assert (known.layer_resident, known.layer_slots) == (3, 2)
