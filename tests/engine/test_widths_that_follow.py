"""`--quality`: widths fall as a conversation grows and rise again; an exact engine knows nothing of it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.loop import Engine
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.memory.trickle import Trickle
from ebbtide.engine.memory.warm import _wanted
from ebbtide.engine.precision import known_damage
from ebbtide.engine.precision.calibration_file import calibration_path, model_key
from ebbtide.engine.precision.keeper import EARLY_TOKENS, WidthKeeper
from ebbtide.engine.precision.planning import Planning
from ebbtide.engine.precision.steward import Proposal, Question, Steward
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import TEXT, Script, generate, load, of, run
from tests.helpers.tiny_models import write_tiny
from tests.helpers.waiting import PATIENCE_S

SIZES: dict[str, Any] = {
    **{"experts": 8, "d_model": 128, "expert_d_ff": 128, "layers": 3, "context": 2048},
    **{"heads": 4, "kv_heads": 4},
}
PROMPT = TEXT * 4
"""About 1,460 tokens: their keys take more than half of the experts' bytes."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return write_tiny(folder / "mixtral.gguf", "mixtral", **SIZES)


def loaded(model: Path, quality: str = "balanced", budget: str = "75%", **fields: Any) -> m.Load:
    cache = str(model.parent / "cache")
    return load(model, budget=budget, ctx=2048, quality=quality, cache_dir=cache, **fields)


def growing(request_id: int = 1, **fields: Any) -> m.Generate:
    return generate(request_id, **({"text": PROMPT, "max_tokens": 60, "ignore_end": True} | fields))


class Watched(Script):
    """An engine whose memory is checked at every event of an answer; each answer is followed by `turns`.
    `events` are as they come out of a pipe.

    `widths` are those that were committed at these events. `idle` may give a command while nothing is asked.
    """

    def __init__(self, command: m.Load, *turns: m.Command) -> None:
        super().__init__(command)
        self._turns = list(turns)
        self.events: list[m.Event] = []
        self.widths: list[NDArray[np.uint8]] = []
        self.ends: list[int] = []
        """How many of them there were when each answer ended."""
        self.idle: Callable[[], m.Command | None] = lambda: None
        self.engine = Engine(self._see, self)

    def next(self, *, wait: bool) -> m.Command | None:
        if (command := self.idle()) is not None:
            return command
        return super().next(wait=wait)

    def run(self) -> "Watched":
        self.engine.run()
        return self

    @property
    def runtime(self) -> Runtime:
        assert self.engine._runtime is not None
        return self.engine._runtime

    @property
    def table(self) -> WeightPageTable:
        assert self.runtime.fast.table is not None
        return self.runtime.fast.table

    @property
    def average(self) -> list[float]:
        return [float(widths.mean()) for widths in self.widths]

    def told(self, kind: str = "widths") -> list[m.Decision]:
        return [decision for decision in of(self.events, m.Decision) if decision.kind == kind]

    def _see(self, event: m.Event) -> None:
        event = msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=m.Event)
        self.events.append(event)
        if isinstance(event, m.Token | m.Snapshot | m.Ledger | m.Loaded):
            self.runtime.fast.check_integrity()
            self.runtime.check_ledger()
            self.widths.append(self.table.committed.copy())
        if isinstance(event, m.Finished):
            self.ends.append(len(self.widths))
        if isinstance(event, m.Loaded | m.Finished) and self._turns:
            command = self._turns.pop(0)
            self.add(command)
            if isinstance(command, m.Clear) and self._turns:
                self.add(self._turns.pop(0))


@pytest.mark.parametrize("budget", ["75%", "100%"])
def test_widths_fall_as_the_conversation_grows_and_rise_after_a_clear(model: Path, budget: str) -> None:
    seen = Watched(loaded(model, budget=budget), growing(), m.Clear()).run()
    (finished,) = of(seen.events, m.Finished)
    assert not of(seen.events, m.Failed) and finished.finish_reason == "length"
    assert finished.memory.peak_bytes <= finished.memory.budget_bytes
    first, least, last = seen.average[0], min(seen.average), float(seen.table.committed.mean())
    assert least < first - 1, "nothing gave way"
    assert abs(last - first) < 0.25 if budget == "75%" else last == first == 8
    shown = {int(width) for width, blocks in finished.memory.width_histogram.items() if blocks}
    assert max(shown) < 8, "the histogram shows what is in memory"


def test_more_experts_stay_than_in_exact_mode(model: Path) -> None:
    exact, fast = (
        of(Watched(loaded(model, quality, budget="60%"), growing()).run().events, m.Finished)[0].memory
        for quality in ("exact", "fast")
    )
    assert fast.expert_hit_rate > exact.expert_hit_rate + 0.2
    assert fast.bytes_paged_in < exact.bytes_paged_in / 4


def test_where_reading_holds_answers_up_it_is_said_once(model: Path) -> None:
    """And never where all experts are there, or where they are narrowed already."""
    for quality, budget, times in (("exact", "45%", 1), ("exact", "100%", 0), ("balanced", "45%", 0)):
        asked = [generate(number, text="def tell", max_tokens=300, ignore_end=True) for number in (1, 2)]
        seen = Watched(loaded(model, quality, budget=budget), *asked).run()
        said = seen.told("advice")
        assert len(said) == times, (quality, budget)
        assert all("ebbtide calibrate" in decision.sentence for decision in said)
        assert len(of(seen.events, m.Finished)) == 2


def test_what_a_clear_gives_back_is_used_while_nobody_asks(model: Path) -> None:
    """Also where not all experts fit at their narrowest: those that left come back."""
    seen = Watched(loaded(model, budget="40%"), growing(), m.Clear())
    would_fit: list[list[int]] = []

    def look() -> None:
        pager = seen.runtime.pager if seen.engine._runtime is not None else None
        would_fit[:] = [_wanted(state) for state in pager._residents.layers] if pager is not None else []

    seen.idle = look
    seen.run()
    (finished,), at_end = of(seen.events, m.Finished), of(seen.events, m.Ledger)[-1].memory
    assert at_end.expert_bytes > finished.memory.expert_bytes
    assert would_fit == [[]] * SIZES["layers"]


def test_every_change_is_told_with_its_reason(model: Path) -> None:
    seen = Watched(loaded(model), growing(), m.Clear()).run()
    first, *fallen, rose = seen.told()
    assert fallen, "a slow machine needs more than one sentence, but never none"
    fell = fallen[0]
    assert "so more of them fit" in first.sentence and "8.00" in first.sentence
    assert "the conversation" in fell.sentence and fell.numbers["bits"] < fell.numbers["bits_before"]
    assert "are free again" in rose.sentence and rose.numbers["bits"] > rose.numbers["bits_before"]
    told = [first, *fallen, rose]
    assert [d.numbers["bits"] for d in told[:-1]] == [d.numbers["bits_before"] for d in told[1:]]


def test_exact_does_nothing(model: Path) -> None:
    seen = Watched(loaded(model, "exact"), growing(), m.Clear(), growing(2, max_tokens=4)).run()
    assert seen.told() == [] and min(seen.average) == 8 and seen.table.epoch == 0
    assert seen.engine._widths is None and not getattr(seen.runtime.forward, "routes", None)


def test_with_room_for_all_the_tokens_are_the_exact_ones(model: Path) -> None:
    (exact,), (ample,) = (
        of(Watched(loaded(model, quality, "16MiB"), growing()).run().events, m.Finished)
        for quality in ("exact", "balanced")
    )
    assert exact.token_ids == ample.token_ids
    assert ample.memory.width_histogram["8"] == 48


def test_the_same_widths_give_the_same_tokens(model: Path) -> None:
    one, other = (Watched(loaded(model, threads=threads), growing()).run() for threads in (1, 2))
    assert [w.tobytes() for w in one.widths][-1] == [w.tobytes() for w in other.widths][-1]
    assert of(one.events, m.Finished)[0].token_ids == of(other.events, m.Finished)[0].token_ids


@pytest.mark.parametrize("quality", ["high", "balanced", "fast"])
def test_floors_are_kept_and_then_experts_give_way(model: Path, quality: str) -> None:
    seen = Watched(loaded(model, quality, "45%"), growing(max_tokens=400)).run()
    (finished,) = of(seen.events, m.Finished)
    floor = {"high": 6, "balanced": 5, "fast": 4}[quality]
    assert finished.finish_reason == "length" and not of(seen.events, m.Failed)
    assert int(min(widths.min() for widths in seen.widths)) == floor
    assert finished.memory.width_histogram["0"] > 0


@pytest.mark.parametrize("text", ["def", PROMPT])
def test_a_late_disk_holds_up_nobody(model: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reads of a rise stand still while an answer is written: it goes on at the old widths, or lower."""
    gate, read_one = threading.Event(), Trickle.read_one

    def late(trickle: Trickle) -> bool:
        assert gate.wait(PATIENCE_S), "nobody let the reads go on"
        return read_one(trickle)

    monkeypatch.setattr(Trickle, "read_one", late)
    seen = Watched(loaded(model), growing(), m.Clear())
    asked: list[int] = []

    def idle() -> m.Command | None:
        if len(of(seen.events, m.Finished)) == 2:
            gate.set()
        elif not asked and seen.engine._runtime is not None and of(seen.events, m.Finished):
            pager = seen.runtime.pager
            if pager is not None and pager.change is not None:
                asked.append(len(seen.widths))
                return growing(2, text=text, max_tokens=30)
        return None

    seen.idle = idle
    seen.run()
    finished = of(seen.events, m.Finished)
    assert asked and len(finished) == 2 and finished[1].finish_reason == "length"
    before, during = seen.average[asked[0] - 1], seen.average[asked[0] : seen.ends[1]]
    assert during and max(during) <= before
    rose = float(seen.table.committed.mean()) > before
    assert rose == (text == "def"), "the long prompt took the memory again"


@pytest.mark.parametrize("part", [(Pager, "advance"), (Steward, "plan")])
def test_an_error_while_nobody_asks_is_one_sentence(
    model: Path, part: tuple[type[Any], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine lives, widths stay, and the next answer comes."""
    where, name = part
    seen, whole = Watched(loaded(model), growing()), getattr(where, name)
    asked: list[NDArray[np.uint8]] = []

    def broken(*arguments: Any, **fields: Any) -> Any:
        if len(asked) == 1:
            raise RuntimeError("no such page")
        return whole(*arguments, **fields)

    monkeypatch.setattr(where, name, broken)

    def idle() -> m.Command | None:
        if of(seen.events, m.Finished) and not asked:
            asked.append(seen.table.committed.copy())
            return m.Clear()
        if any("no such page" in decision.sentence for decision in seen.told()) and len(asked) == 1:
            asked.append(seen.table.committed.copy())
            return growing(2, text="def", max_tokens=4)
        return None

    seen.idle = idle
    seen.run()
    assert len(asked) == 2 and (asked[0] == asked[1]).all(), "widths stay"
    (told,) = (decision.sentence for decision in seen.told() if "no such page" in decision.sentence)
    assert "Precision stays as it is" in told and "RuntimeError" in told and "report it" in told
    assert [event.finish_reason for event in of(seen.events, m.Finished)] == ["length", "length"]


def test_plans_are_made_beside_the_steps(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    plan = Steward.plan

    def watched(steward: Steward, question: Question) -> Proposal:
        threads.add(threading.current_thread().name)
        return plan(steward, question)

    monkeypatch.setattr(Steward, "plan", watched)
    Watched(loaded(model), growing(), m.Clear()).run()
    assert threads == {"ebbtide-planner_0"}
    assert not any(t.name.startswith("ebbtide-planner") and not _ended(t) for t in threading.enumerate())


def test_room_for_a_growing_answer_is_planned_before_it_is_needed(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question itself grows by chunks, which nobody sees coming; an answer's tokens are foreseen."""
    seen, lengths = Watched(loaded(model), growing(text="def", max_tokens=900)), [0]
    early: list[int] = []
    ask, take, look = Planning.ask, Planning.take, WidthKeeper.look
    asked_at = [0]

    def watched_look(keeper: WidthKeeper, length: int, coming: int) -> None:
        lengths.append(length)
        look(keeper, length, coming)

    def watched_ask(planning: Planning, question: Question, tokens: int, *, lowers: bool) -> None:
        asked_at[0] = lengths[-1]
        ask(planning, question, tokens, lowers=lowers)

    def watched_take(planning: Planning, current: NDArray[np.uint8]) -> Proposal | None:
        if planning.asked is not None and planning.asked.lowers and lengths[-1]:
            early.append(lengths[-1] - asked_at[0])
        return take(planning, current)

    monkeypatch.setattr(WidthKeeper, "look", watched_look)
    monkeypatch.setattr(Planning, "ask", watched_ask)
    monkeypatch.setattr(Planning, "take", watched_take)
    seen.run()
    assert of(seen.events, m.Finished)[0].finish_reason == "length"
    assert min(seen.average) < seen.average[0], "nothing gave way"
    assert early and set(early) == {EARLY_TOKENS}, early


def _ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def test_keys_of_lowered_widths_are_never_exact(model: Path) -> None:
    runtime = Runtime.load(loaded(model, "exact"), lambda *_: None)
    table, pager = runtime.fast.table, runtime.pager
    assert table is not None and pager is not None and runtime.wants_exact_keys
    ids = runtime.tokenizer.encode(TEXT, add_bos=False, parse_special=False)[:200]
    for widths, is_exact in ((table.committed - 2, False), (table.committed.copy(), True)):
        pager.set_widths(widths.astype(np.uint8)).finish()
        sequence = runtime.pool.new_sequence()
        runtime.pool.extend(sequence, len(ids), runtime.fast.provenance(Lane.PREFILL))
        runtime.prefixes.insert(ids, sequence)
        runtime.pool.release(sequence)
        found = {exact: runtime.prefixes.begin(ids, exact=exact) for exact in (False, True)}
        assert found[False].length > 0 and (found[True].length > 0) == is_exact
        for shared in found.values():
            runtime.pool.release(shared)
    runtime.fast.check_integrity()
    runtime.close()


def test_damage_is_measured_once(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "once.gguf", "mixtral", **SIZES)
    events = [Watched(loaded(model), generate(max_tokens=1)).run().events for _ in range(2)]
    stages = [{event.stage for event in of(part, m.Progress)} for part in events]
    assert known_damage.STAGE in stages[0] and known_damage.STAGE not in stages[1]
    notices = of(events[0], m.Loaded)[0].notices
    assert any("ebbtide calibrate" in notice for notice in notices)


def test_a_damaged_calibration_is_left_out_and_told_of(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "damaged.gguf", "mixtral", **SIZES)
    runtime = Runtime.load(loaded(model, "exact"), lambda *_: None)
    path = calibration_path(tmp_path / "cache", model_key(runtime.source))
    runtime.close()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no archive")
    seen = Watched(loaded(model), generate(max_tokens=1)).run()
    notices = of(seen.events, m.Loaded)[0].notices
    assert any("not used" in notice and "ebbtide calibrate" in notice for notice in notices)
    assert seen.told() and path.read_bytes() == b"no archive"


def test_refused_where_widths_cannot_change(folder: Path, model: Path) -> None:
    dense = write_tiny(folder / "dense.gguf", "llama")
    for wish, words in (
        (load(dense, quality="balanced", pack="no"), "has none"),
        (loaded(model, width=4), "--width 4"),
        (loaded(model, "best"), "exact, high, balanced, fast"),
    ):
        (failed,) = of(run(wish), m.Failed)
        assert failed.exit_code == 2 and words in failed.message + failed.hint and failed.hint
