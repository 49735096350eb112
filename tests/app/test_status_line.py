"""The line about the model and the chat: what it says, and what gives way where it is narrow."""

import msgspec
import pytest
from textual.app import App, ComposeResult

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.phase import Phase
from ebbtide.app.token_counts import Cost
from ebbtide.app.widgets.squeeze import shorter, squeeze
from ebbtide.app.widgets.status_line import Status, StatusLine, status_of
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import (
    Command,
    Finished,
    Load,
    Loaded,
    Memory,
    Progress,
    Snapshot,
    Timings,
    Usage,
)
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    drawn,
    press,
    ready,
    screen_of,
    settled,
    shown,
    until,
)
from tests.helpers.fake_engine import Script, command_line

READING = Status(
    name="Ebbtide Starter",
    phase=Phase.READING,
    detail="256/1,280",
    share="256/1,280",
    speed_tok_s=71.04,
    context_used=890,
    context_size=8192,
    title="A question about closures",
)
ANSWERING = msgspec.structs.replace(READING, phase=Phase.ANSWERING, detail="", share="")
LOADING = Status(
    name="starter",
    phase=Phase.FETCHING,
    detail="Downloading the starter's basis 43% of 88.6 MiB",
    share="43%",
    waits=True,
)
FULL = msgspec.structs.replace(ANSWERING, context_used=8190, draft=Cost(1200))


LOADED = Loaded("tiny", "llama", 4096, 100, 2, 8, "portable", 2, 0.5, Memory())


class Recording(EngineClient):
    """Starts and sends nothing."""

    def send(self, command: Command) -> None:
        pass


class Lines(App[None]):
    """A status line alone; nothing beside it takes cells."""

    def compose(self) -> ComposeResult:
        yield StatusLine()


async def line(status: Status, width: int) -> str:
    app = Lines()
    async with app.run_test(size=(width, 3)) as pilot:
        app.query_one(StatusLine).status = status
        await settled(pilot)
        return drawn(app).split("\n")[0]


@pytest.mark.parametrize("status", [READING, ANSWERING, LOADING, FULL], ids=["read", "write", "load", "full"])
@pytest.mark.parametrize("width", [20, 24, 30, 36, 41, 60, 80])
async def test_the_state_stays_and_figures_are_whole(status: Status, width: int) -> None:
    text = await line(status, width)
    assert str(status.phase) in text
    whole = (
        "256/1,280",
        "71.0 tok/s",
        "43%",
        "88.6 MiB",
        "890 / 8,192",
        "8,190 / 8,192",
        "8,190 + 1,200 / 8,192",
    )
    rest = text
    for figure in whole:
        rest = rest.replace(figure, "")
    assert not any(character.isdigit() for character in rest), f"a figure is cut in {text!r}"


async def test_what_gives_way_first() -> None:
    wide = await line(ANSWERING, 100)
    assert "“A question about closures”" in wide and "71.0 tok/s" in wide and "context 890" in wide
    assert "…”" in await line(ANSWERING, 80), "a title is cut before anything else"
    without_title = await line(ANSWERING, 66)
    assert "71.0 tok/s" in without_title and "“" not in without_title
    without_speed = await line(ANSWERING, 50)
    assert "tok/s" not in without_speed and "Ebbtide Starter" in without_speed
    assert "Ebbti…  ◐ answering" in await line(ANSWERING, 40)


BALANCED = msgspec.structs.replace(ANSWERING, quality="balanced")


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (120, "Ebbtide Starter  balanced  ◐ answering  “A question about closures”"),
        (80, "Ebbtide Starter  balanced  ◐ answering"),
        (60, "Ebbtide Starter  balanced  ◐ answering"),
        (50, "Ebbti…  balanced  ◐ answering"),
    ],
)
async def test_a_quality_that_is_not_exact_is_said_beside_the_name(width: int, said: str) -> None:
    assert said in await line(BALANCED, width)
    assert "exact" not in await line(ANSWERING, width)


@pytest.mark.parametrize("used", [4224, 4225, 6000])
async def test_no_more_of_the_context_is_used_than_there_is(used: int) -> None:
    text = await line(msgspec.structs.replace(ANSWERING, context_used=used, context_size=4224), 120)
    assert "context 4,224 / 4,224 full" in text


def test_figures_of_an_earlier_prompt_are_not_those_of_the_next() -> None:
    session = ChatSession(Recording(command=["nothing"]), Load("/models/tiny.gguf"))
    session.handle(LOADED)
    session.ask("first")
    session.handle(Snapshot(1, "prefill", 278, 278, 0, 278, 4096, 0.0, 71.0, Memory()))
    assert status_of(session, "").detail == "278/278"
    session.handle(Finished(1, "ok", [1], "stop", Usage(278, 0, 1), Timings(), Memory()))
    assert status_of(session, "").context_used == 278
    session.ask("a paste of some megabytes")
    status = status_of(session, "")
    assert (status.phase, status.detail, status.speed_tok_s) == (Phase.READING, "", 0.0)
    session.handle(Snapshot(2, "prefill", 900, 256, 0, 300, 4096, 0.0, 71.0, Memory()))
    assert status_of(session, "").detail == "256/900"


async def test_a_narrow_line_without_the_quality_names_the_state() -> None:
    assert "Ebbti…  ◐ answering" in await line(BALANCED, 40)


async def test_another_quality_is_said_at_once() -> None:
    async with chat_app(Script(load_delay_s=2.0)).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await shown(pilot, "● ready", without=["balanced"])
        await ask(pilot, "/quality balanced")
        await until(pilot, lambda: screen_of(pilot).query_one(StatusLine).status.quality == "balanced")
        assert screen_of(pilot).session.phase is Phase.LOADING
        await ready(pilot)
        await shown(pilot, "balanced  ● ready")
        await ask(pilot, "/quality exact")
        await shown(pilot, "● ready", without=["balanced"])


async def test_a_question_that_waits_for_the_model_says_so() -> None:
    assert "your question waits for the model: fetching  Downloading" in await line(LOADING, 120)
    assert "waits: fetching  43%" in await line(LOADING, 36)
    async with chat_app(Script(load_delay_s=300, progress_steps=3000)).run_test() as pilot:
        await until(pilot, lambda: screen_of(pilot).session.model.progress is not None)
        await shown(pilot, "loading", without=["waits"])
        await ask(pilot, "hello?")
        await shown(pilot, "waits for the model: loading", "%")


def test_the_starter_is_fetched_then_built() -> None:
    client = EngineClient(command=command_line(Script()))
    session = ChatSession(client, Load("/models/tiny.gguf"))
    session.model.state = Phase.FETCHING
    session.handle_fetcher(Progress("download", 1, 2))
    assert status_of(session, "starter").word == ""
    session.handle_fetcher(Progress("expand", 1, 2))
    assert status_of(session, "starter").word == "building"


async def test_an_engine_that_is_not_heard_of_does_not_answer() -> None:
    """Somebody stopped it, say: what it did before is no news."""
    endless = Script(answer="word", after_answer="hold")
    async with chat_app(endless).run_test(size=(100, 24)) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await shown(pilot, "answering", without=["nothing heard"])
        await until(pilot, lambda: screen_of(pilot).session.answer.text == "word")
        screen_of(pilot).session._heard_at -= 45
        await shown(pilot, "nothing heard for 4", without=["answering"])


async def test_building_is_the_word_on_the_line() -> None:
    text = await line(msgspec.structs.replace(LOADING, word="building", waits=False), 120)
    assert "◐ building  Downloading" in text and "fetching" not in text


@pytest.mark.parametrize("size", [(40, 12), (80, 24)])
async def test_narrow_screens_name_the_state(size: tuple[int, int]) -> None:
    endless = Script(answer="word " * 5000, token_delay_s=0.02)
    async with chat_app(endless).run_test(size=size) as pilot:
        await ready(pilot)
        if size[1] > 12:  # on a lower one the panel has no side
            press(pilot, "f2")
            await shown(pilot, "memory")
        await shown(pilot, "● ready")
        await ask(pilot, "go on")
        await shown(pilot, "◐ answering")
        press(pilot, "escape")
        await shown(pilot, "● ready")


async def test_the_title_is_shown_and_a_new_one_is_told() -> None:
    async with chat_app(Script()).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await answered(pilot, "what is ebb?")
        await shown(pilot, "“what is ebb?”")
        await ask(pilot, "/rename Tides\x1b[31m and [red]more")
        await shown(pilot, "Renamed to “Tides[31m and [red]more”.")
        screen_of(pilot).hint("")
        await shown(pilot, "● ready  “Tides[31m and [red]more”", without=["Renamed"])
        await ask(pilot, "/new")
        await shown(pilot, "● ready", without=["“"])


def test_wordings_give_way_in_order() -> None:
    parts = {"a": ["aaaa", "aa", ""], "b": ["bbbb", "b"]}
    steps = (("a", 1), ("b", 0), ("a", 0))
    assert squeeze(parts, steps, 8) == {"a": "aaaa", "b": "bbbb"}
    assert squeeze(parts, steps, 7) == {"a": "aa", "b": "bbbb"}
    assert squeeze(parts, steps, 5) == {"a": "aa", "b": "b"}
    assert squeeze(parts, steps, 0) == {"a": "", "b": "b"}
    assert shorter("abcd", 2) == ["abcd", "ab…", "a…"]
    assert shorter("日本語", 3) == ["日本語", "日本…", "日 …", "日…"]
