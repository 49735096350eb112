"""Cards that are full, or gone: what is said, what is kept, and that things go on."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.client import Died, EngineClient
from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.loop import Engine
from ebbtide.engine.memory.arena import Arena
from ebbtide.engine.runtime import Runtime
from ebbtide.kernels.triton.combine import combine
from tests.card.test_end_to_end import SIZES
from tests.helpers.card_engine import card_engine
from tests.helpers.host_card import HostCard
from tests.helpers.in_process import Script, generate, load, of, run
from tests.helpers.tiny_models import write_tiny
from tests.helpers.waiting import PATIENCE_S

OUT_OF_MEMORY = 2
ALLOCATE = {"cuMemAlloc_v2", "cuMemHostAlloc"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_tiny(tmp_path / "m.gguf", "qwen3moe", **SIZES)


class Refusal:
    """Refuses allocation number `at`, and with `for_good` all after it. `count`: how many there were."""

    def __init__(self, at: int, *, for_good: bool) -> None:
        self.at, self.for_good, self.count = at, for_good, 0

    def __call__(self, name: str) -> int:
        if name not in ALLOCATE:
            return 0
        self.count += 1
        is_refused = self.count > self.at if self.for_good else self.count == self.at + 1
        return OUT_OF_MEMORY if is_refused else 0


def load_on(card: HostCard, model: Path, refusal: Refusal, device: str = "auto") -> Runtime:
    """A loaded model; nothing is read ahead yet."""
    card.library.refuse = refusal
    return Runtime.load(load(model, pack="no", device=device), lambda *_: None)


def allocations(card: HostCard, model: Path) -> int:
    """Of a load where all goes well."""
    refusal = Refusal(1 << 30, for_good=True)
    load_on(card, model, refusal).close()
    return refusal.count


@pytest.mark.parametrize("for_good", [True, False])
def test_each_allocation_of_a_load_may_fail(card: HostCard, model: Path, for_good: bool) -> None:
    on_card, count = 0, allocations(card, model)
    for at in range(count):
        runtime = load_on(card, model, Refusal(at, for_good=for_good))
        words = ("No card is used", "staging memory", "pinned memory")
        (said,) = [notice for notice in runtime.notices if any(word in notice for word in words)]
        is_on_card = runtime.room.isa == "sm_86"
        assert is_on_card == ("No card is used: The card has no" not in said), said
        on_card += is_on_card
        runtime.close()
        assert card.library.blocks == {} and card.library.pinned == {}, "something was left on the card"
    assert (on_card == 0) == for_good and on_card < count


def test_a_card_that_was_asked_for_is_refused_with_the_reason(card: HostCard, model: Path) -> None:
    with pytest.raises(FitError, match="The card has no") as caught:
        load_on(card, model, Refusal(3, for_good=True), "cuda:0")
    assert "--device cpu" in caught.value.hint
    assert card.library.blocks == {} and card.library.pinned == {}


def test_a_slab_that_cannot_be_had_in_the_middle_of_an_answer(
    card: HostCard, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Arena.__init__, "__kwdefaults__", {"slab_bytes": 128 << 10, "memory": None})
    ask, loading = generate(text="a=", max_tokens=1), allocations(card, model)
    answers = []
    for slabs in (1 << 30, 3):
        card.library.refuse = Refusal(loading + slabs, for_good=True)
        events = run(load(model, pack="no"), ask)
        assert not of(events, m.Failed)
        answers += of(events, m.Finished)
        said = [event.sentence for event in of(events, m.Decision) if event.kind == "shortage"]
        assert len(said) == (slabs == 3)
    assert "given up until the model is loaded again" in said[0]
    assert answers[0].token_ids == answers[1].token_ids


@pytest.mark.parametrize("function", ["cuMemAlloc_v2", "cuEventCreate"])
def test_reading_ahead_on_a_full_card_ends_and_the_engine_goes_on(
    card: HostCard, model: Path, function: str
) -> None:
    events: list[m.Event] = []
    script = Script(load(model, pack="no"))

    def see(event: m.Event) -> None:
        events.append(event)
        if isinstance(event, m.Loaded):
            card.library.refusals = {function: OUT_OF_MEMORY}

    Engine(see, script).run()
    assert of(events, m.Loaded)[0].isa == "sm_86" and not of(events, m.Failed)


def test_a_launch_without_memory_fails_one_request(
    card: HostCard, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, left = combine, [1]

    def full(*args: Any) -> None:
        if left and left.pop():
            raise RuntimeError("Triton Error [CUDA]: out of memory")
        launch(*args)

    monkeypatch.setattr("ebbtide.kernels.triton.ops.combine", full)
    events = run(
        load(model, pack="no"), generate(1, text="a", max_tokens=1), generate(2, text="a", max_tokens=1)
    )
    (failed,) = of(events, m.Failed)
    assert (failed.request_id, failed.exit_code, failed.message) == (1, 4, "the card has no memory left")
    assert of(events, m.Finished)[0].request_id == 2


def test_a_card_that_breaks_while_a_model_is_loaded(card: HostCard, model: Path) -> None:
    for function in ("cuStreamCreate", "cuMemAlloc_v2", "cuMemHostAlloc"):
        card.library.refusals = {function: 700}
        runtime = Runtime.load(load(model, pack="no"), lambda *_: None)
        assert runtime.room.threads == 2
        assert runtime.notices[0].startswith(f"No card is used: {function}")
        runtime.close()
        with pytest.raises(FitError, match="cuda:0 does not work any more"):
            Runtime.load(load(model, pack="no", device="cuda:0"), lambda *_: None)


def test_errors_that_are_not_the_cards_are_not_hidden(card: HostCard, model: Path) -> None:
    with pytest.raises(UsageError, match="longer than this model's context"):
        Runtime.load(load(model, pack="no", ctx=1 << 20), lambda *_: None)
    assert card.library.blocks == {} and card.library.pinned == {}


def wait_for(client: EngineClient, kind: type[Any]) -> Any:
    while not isinstance(event := client.next_event(PATIENCE_S), kind):
        assert event is not None and not isinstance(event, Died | m.Failed), event
    return event


def test_a_card_lost_in_the_middle_of_an_answer(tmp_path: Path, model: Path) -> None:
    gone = tmp_path / "gone"
    client = EngineClient(command=card_engine(gone))
    client.start()
    try:
        client.send(load(model, budget="0%", pack="no"))
        assert wait_for(client, m.Loaded).isa == "sm_86"
        client.send(generate(1, text="a", max_tokens=0))
        wait_for(client, m.Token)
        gone.touch()
        died: Died = wait_for(client, Died)
        assert died.reason == "lost the card that it computed on" and any(
            "700" in line for line in died.stderr_tail
        )
        client.restart()
        client.send(load(model, budget="100%", pack="no"))
        loaded: m.Loaded = wait_for(client, m.Loaded)
        assert loaded.isa != "sm_86" and any("No card is used" in notice for notice in loaded.notices)
        client.send(generate(2, text="a", max_tokens=2))
        assert wait_for(client, m.Finished).finish_reason == "length"
    finally:
        client.close()
