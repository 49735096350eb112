"""`/budget` in the chat: sizes in MiB, and a pack that is offered before the model is let go."""

import msgspec
import pytest

from ebbtide.app.budget_wish import bytes_of, needs_pack, words_of
from ebbtide.app.phase import Phase
from ebbtide.engine.messages import Load, Loaded
from tests.helpers.chat_host import ask, chat_app, press, ready, screen_of, shown, until
from tests.helpers.fake_engine import Script
from tests.helpers.panel_states import memory

MIB = 1 << 20
LOADED = Loaded(
    *("tiny", "llama", 4096, 100, 2, 8, "portable", 2, 0.5, memory()),
    smallest_budget_bytes=150 * MIB,
    base_bytes=100 * MIB,
    expert_bytes=1000 * MIB,
    page_bytes=3 * MIB,
    pack_below_bytes=1100 * MIB,
)
NO_PACK = Script(
    base_bytes=100 * MIB, expert_bytes=1000 * MIB, pack_below_bytes=1100 * MIB, pack_bytes=695 * MIB
)


@pytest.mark.parametrize(
    ("wish", "mib"),
    [("20%", 301), ("1%", 150), ("100%", 1099), ("300MiB", 300), ("2,736 MiB", 2736), ("auto", None)],
)
def test_what_a_budget_comes_to(wish: str, mib: int | None) -> None:
    assert bytes_of(wish, LOADED) == (None if mib is None else mib * MIB)
    assert bytes_of("20%", None) is None


def test_what_only_a_budget_for_all_experts_holds_is_counted_there() -> None:
    loaded = msgspec.structs.replace(LOADED, expert_bytes=999 * MIB, ample_bytes=55 * MIB)
    assert bytes_of("100%", loaded) == (1099 + 55) * MIB
    assert bytes_of("99%", loaded) == bytes_of("99%", LOADED)


def test_a_size_that_says_itself_is_said_once() -> None:
    assert words_of("2736MiB", 2736 * MIB) == words_of("2,736 mib", 2736 * MIB) == "2,736 MiB"
    assert words_of("20%", 301 * MIB) == "20% (301 MiB)"
    assert words_of("auto", None) == "auto"
    assert words_of("30%", 323 * MIB + 300_000) == "30% (323 MiB)", "as the memory bar has it"


def test_a_pack_is_needed_only_below_its_bound_and_where_none_may_be_made_unasked() -> None:
    assert needs_pack("20%", Load("/m"), LOADED) and not needs_pack("1100MiB", Load("/m"), LOADED)
    assert not needs_pack("20%", Load("/m", pack="yes"), LOADED)
    assert not needs_pack("auto", Load("/m"), LOADED) and not needs_pack("20%", Load("/m"), None)


async def test_the_budget_is_said_in_mib() -> None:
    async with chat_app(Script(base_bytes=100 * MIB, expert_bytes=1000 * MIB)).run_test(
        size=(100, 40)
    ) as pilot:
        await ready(pilot)
        await ask(pilot, "/budget")
        await shown(pilot, "The budget is auto (300 MiB).")
        await ask(pilot, "/budget 20%")
        await shown(pilot, "budget of 20% (300 MiB)")
        assert screen_of(pilot).session.load.budget == "20%"


@pytest.mark.parametrize("taken", [True, False])
async def test_a_pack_is_offered_before_the_model_is_let_go(taken: bool) -> None:
    async with chat_app(NO_PACK).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        session = screen_of(pilot).session
        life = session.model.life
        await ask(pilot, "/budget 20%")
        await shown(pilot, "A budget of 20% (300 MiB) needs a pack", "695 MiB of disk")
        assert (session.model.life, session.phase, session.load.budget) == (life, Phase.READY, "auto")
        press(pilot, *([] if taken else ["down"]), "enter")
        await shown(pilot, "tiny", without=["needs a pack"])
        if taken:
            await until(pilot, lambda: session.load == Load("/models/tiny.gguf", budget="20%", pack="yes"))
        await ready(pilot)
        assert (session.model.life > life) == taken


async def test_a_budget_of_more_memory_than_there_is_is_refused_with_the_machines_figure() -> None:
    async with chat_app(Script(most_budget_bytes=24064 * MIB)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        before = screen_of(pilot).session.load
        await ask(pilot, "/budget 900GB")
        await shown(pilot, "more than the memory that is there, 23.5 GiB", "22,560 MiB or less, or auto")
        assert screen_of(pilot).session.load == before and screen_of(pilot).session.phase is Phase.READY
