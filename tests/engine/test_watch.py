"""Looking at memory while it works: pictures for those who ask, decisions in words, changes by hand."""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ebbtide.engine import messages as m
from ebbtide.engine import trades
from ebbtide.engine.loop import Engine
from ebbtide.engine.watcher import Watcher
from tests.helpers.in_process import TEXT, Script, generate, load, of, run
from tests.helpers.tiny_models import write_tiny

LAYERS, EXPERTS = 3, 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes: dict[str, Any] = {"experts": EXPERTS, "d_model": 128, "expert_d_ff": 128, "layers": LAYERS}
    return write_tiny(tmp_path_factory.mktemp("watch") / "mixtral.gguf", "mixtral", **sizes)


def meddle(react: Callable[[m.Event, Script], None], *commands: m.Command) -> list[m.Event]:
    """Run with someone who sees each event at once and may add commands."""
    events: list[m.Event] = []
    script = Script(*commands)

    def emit(event: m.Event) -> None:
        events.append(event)
        react(event, script)

    Engine(emit, script).run()
    return events


def kinds(events: list[m.Event]) -> list[str]:
    return [decision.kind for decision in of(events, m.Decision)]


def test_nobody_watches_nothing_is_sent(model: Path) -> None:
    assert of(run(load(model, budget="40%"), generate()), m.Residency) == []


def test_a_picture_is_whole(model: Path) -> None:
    picture = of(run(load(model, budget="40%"), m.Watch(0.05), generate()), m.Residency)[-1]
    assert (picture.layers, picture.experts) == (LAYERS, EXPERTS)
    assert len(picture.widths) == len(picture.pinned) == LAYERS * EXPERTS
    uses = struct.unpack(f"<{LAYERS * EXPERTS}I", picture.uses)
    assert set(picture.widths) == {0, 8} and sum(uses) > 0 and not any(picture.pinned)
    resident = [sum(map(bool, picture.widths[i * EXPERTS : (i + 1) * EXPERTS])) for i in range(LAYERS)]
    assert all(count <= slots for count, slots in zip(resident, picture.slots, strict=True))
    assert held_bytes(picture) == picture.memory.expert_bytes


def held_bytes(picture: m.Residency) -> int:
    """Of the experts that are there."""
    pages = struct.unpack(f"<{len(picture.widths)}I", picture.pages)
    there = sum(int(pages[at]) for at, width in enumerate(picture.widths) if width)
    return there * picture.page_bytes


def test_the_picture_of_narrowed_experts_has_the_bytes_that_they_take(model: Path, tmp_path: Path) -> None:
    narrow = load(model, budget="50%", quality="fast", cache_dir=str(tmp_path))
    picture = of(run(narrow, m.Watch(0.05), generate()), m.Residency)[-1]
    assert 0 < min(width for width in picture.widths if width) < 8
    assert held_bytes(picture) == picture.memory.expert_bytes


def test_after_watching_ends_nothing_is_sent(model: Path) -> None:
    events = run(load(model), m.Watch(0.05), m.Watch(0), generate())
    assert of(events, m.Residency) == []


def test_a_dense_model_has_no_experts_to_show(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "dense.gguf", "llama")
    picture = of(run(load(path, pack="no"), m.Watch(1.0)), m.Residency)[-1]
    assert picture.experts == 0 and picture.widths == b"" and picture.memory.static_bytes > 0


def test_pins_and_evictions_in_the_middle_change_no_token(model: Path) -> None:
    plain = of(run(load(model, budget="40%"), generate(max_tokens=40)), m.Finished)[0]
    seen = 0

    def react(event: m.Event, script: Script) -> None:
        nonlocal seen
        if isinstance(event, m.Token):
            seen += 1
            layer, expert = seen % LAYERS, seen * 5 % EXPERTS
            script.add(m.Pin(layer, expert, on=seen % 4 != 0))
            script.add(m.Evict((layer + 1) % LAYERS, (expert + 3) % EXPERTS))

    events = meddle(react, load(model, budget="40%"), m.Watch(0.05), generate(max_tokens=40))
    assert of(events, m.Finished)[0].token_ids == plain.token_ids
    assert {"pin", "evict", "refused"} <= set(kinds(events))
    assert any(any(picture.pinned) for picture in of(events, m.Residency))


def test_a_pin_shows_in_the_last_picture(model: Path) -> None:
    def react(event: m.Event, script: Script) -> None:
        if isinstance(event, m.Loaded):
            script.add(m.Pin(1, 6))
            script.add(m.Evict(1, 6))

    events = meddle(react, load(model, budget="60%"), m.Watch(60.0))
    picture = of(events, m.Residency)[-1]
    assert picture.pinned[1 * EXPERTS + 6] == 1 and picture.widths[1 * EXPERTS + 6] == 8
    (refusal,) = [decision for decision in of(events, m.Decision) if decision.kind == "refused"]
    assert refusal.sentence == "Expert 6 of layer 1 is pinned. Unpin it first."


def test_without_a_model_pins_are_refused_in_a_sentence() -> None:
    (refusal,) = run(m.Pin(0, 0))
    assert isinstance(refusal, m.Decision) and refusal.kind == "refused"
    assert "No experts are loaded" in refusal.sentence


def test_decisions_of_a_load_and_an_answer(model: Path) -> None:
    decisions = {d.kind: d for d in of(run(load(model, budget="40%"), generate(max_tokens=5)), m.Decision)}
    assert decisions["budget"].sentence.startswith("Budget ") and "(40%)" in decisions["budget"].sentence
    assert f"of {LAYERS * EXPERTS} experts" in decisions["budget"].sentence
    assert decisions["prefill"].numbers["tokens"] > 100
    assert decisions["answer"].sentence.startswith("Answer: 5 tokens at ")


def test_reading_ahead_says_what_it_read(model: Path) -> None:
    budget, warm = of(run(load(model, budget="40%")), m.Decision)
    assert warm.kind == "warm" and warm.numbers["resident"] == budget.numbers["held"]
    assert warm.numbers["bytes"] > 0 and warm.sentence.startswith("Read ahead while idle: ")


def test_a_growing_context_that_takes_experts_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trades, "INTERVAL_S", 3600.0)  # the prompt is one moment, however slow the machine
    sizes: dict[str, Any] = {"experts": EXPERTS, "d_model": 128, "expert_d_ff": 128, "layers": LAYERS}
    path = write_tiny(tmp_path / "long.gguf", "mixtral", context=2048, **sizes)

    def react(event: m.Event, script: Script) -> None:
        if isinstance(event, m.Decision) and event.kind == "warm":
            script.add(generate(text=TEXT * 4, max_tokens=2))

    events = meddle(react, load(path, budget="60%", ctx=2048))
    grown = [decision for decision in of(events, m.Decision) if decision.kind == "kv"]
    assert grown and all(decision.numbers["experts"] >= 1 for decision in grown)
    pattern = (
        r"Context [\d,]+ → [\d,]+: KV \+\S+ .iB, \d+ experts? gave way \(L0.*\), experts \S+ .iB → \S+ .iB"
    )
    assert [d.sentence for d in grown if not re.fullmatch(pattern, d.sentence)] == []
    assert len(grown) <= 2, "what happens within the interval is told together"
    finished = of(events, m.Finished)[0]
    assert grown[-1].numbers["expert_bytes"] >= finished.memory.expert_bytes


def picture(number: int) -> m.Residency:
    return m.Residency(0, 0, b"", b"", b"", [], b"", 0, number, m.Memory())


def test_the_most_eager_viewer_sets_the_rate() -> None:
    rates: list[float] = []
    watcher = Watcher(lambda _: None, rates.append)
    for command in (
        m.Watch(1.0),
        m.Watch(0.25, "top-1"),
        m.Watch(0, "top-1"),
        m.Watch(0, "other"),
        m.Watch(0),
    ):
        watcher.watch(command)
    assert rates == [1.0, 0.25, 1.0, 1.0, 0.0]
    assert not watcher.watched


def test_resting_sends_only_what_is_new() -> None:
    sent: list[int] = []
    watcher = Watcher(lambda residency: sent.append(residency.spare_bytes))
    watcher.rest(lambda: picture(0))
    watcher.watch(m.Watch(3600.0))
    for number in (1, 2):
        watcher.look(lambda number=number: picture(number))  # type: ignore[misc]
    for number in (2, 2, 3):
        watcher.rest(lambda number=number: picture(number))  # type: ignore[misc]
    assert sent == [1, 2, 3]
