"""`/quality` in the chat: it says the present one, loads again with another, and keeps all else."""

import msgspec
import pytest

from ebbtide.app.phase import Phase
from ebbtide.app.slash.model_commands import COMMANDS, QUALITY_NAMES
from ebbtide.app.widgets.turns import Note
from ebbtide.engine.precision.quality import QUALITIES
from tests.helpers.chat_host import ask, chat_app, ready, screen_of, shown, until
from tests.helpers.fake_engine import Script


def test_the_names_are_exact_and_those_that_the_engine_knows() -> None:
    assert ("exact", *QUALITIES) == QUALITY_NAMES


async def test_its_words_are_completed() -> None:
    async with chat_app(Script()).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        command = next(command for command in COMMANDS if command.name == "quality")
        assert command.choices is not None
        assert command.choices(screen_of(pilot)) == list(QUALITY_NAMES)


@pytest.mark.parametrize("name", ["high", "balanced", "fast", "FAST"])
async def test_another_quality_loads_again_and_the_chat_stays(name: str) -> None:
    async with chat_app(Script(load_delay_s=0.5)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        session = screen_of(pilot).session
        await ask(pilot, "hello there")
        await until(pilot, lambda: session.finished is not None and session.phase is Phase.READY)
        before, life, said = session.load, session.model.life, list(session.turns)
        assert len(said) == 2
        await ask(pilot, "/quality")
        await shown(pilot, "The quality is exact.")
        await ask(pilot, f"/quality {name}")
        await shown(pilot, "Loading again with quality")
        await until(pilot, lambda: session.load == msgspec.structs.replace(before, quality=name.lower()))
        await ready(pilot)
        await shown(pilot, without=["Loading again"])
        assert session.model.life > life and list(session.turns) == said
        await ask(pilot, "/quality")
        await shown(pilot, f"The quality is {name.lower()}.")


async def test_what_is_asked_while_it_loads_stays() -> None:
    """Only the note about loading goes when the model is there."""
    async with chat_app(Script(load_delay_s=3)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "/quality high")
        await shown(pilot, "Loading again with quality")
        await ask(pilot, "/quality")
        await shown(pilot, "The quality is high.")
        await ready(pilot)
        await pilot.pause(0.2)
        (note,) = screen_of(pilot).transcript.query(Note)
        assert "The quality is high." in note.text


async def test_the_present_quality_loads_nothing_again() -> None:
    async with chat_app(Script()).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        life = screen_of(pilot).session.model.life
        await ask(pilot, "/quality exact")
        await shown(pilot, "The quality is exact already.")
        assert screen_of(pilot).session.model.life == life


async def test_an_unknown_word_is_refused_with_those_that_there_are() -> None:
    async with chat_app(Script()).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        session = screen_of(pilot).session
        before = session.load
        await ask(pilot, "/quality best")
        await shown(pilot, "'best' is not a quality", "Write exact, high, balanced or fast.")
        assert session.load == before and session.phase is Phase.READY


async def test_a_bound_is_taken_where_widths_change_and_its_end_is_told() -> None:
    async with chat_app(Script()).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("f2", "f2")
        await shown(pilot, "[b] at least")
        await pilot.press("right", "b")
        await shown(pilot, "Widths do not change. Choose a /quality.")
        await pilot.press("f2")
        await ask(pilot, "/quality fast")
        await until(pilot, lambda: screen_of(pilot).session.load.quality == "fast")
        await ready(pilot)
        await pilot.press("f2", "f2")
        await shown(pilot, "[b] at least")
        await pilot.press("right", "b")
        await shown(pilot, "L00 expert 1 keeps at least 8 bits by hand · [b] undoes it", "[b] free")
        await pilot.press("b")
        await shown(pilot, "has no bound any more", "[b] at least")
        await pilot.press("w", "p")
        await shown(pilot, "L00 expert 1 pinned by hand", "[w] free")
        await pilot.press("f2")
        await ask(pilot, "/quality exact")
        told = "1 pin and 1 bound, set by hand, end with this load."
        await shown(pilot, told)
        await ready(pilot)
        await pilot.press("f2", "f2")
        await shown(pilot, f"{told} With --quality exact every expert has all")


async def test_advice_stands_behind_the_answer_until_the_next_question() -> None:
    advice = "62% of the experts asked for had to be read. With quality balanced all fit: /quality balanced"
    async with chat_app(Script(advice=advice)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        session = screen_of(pilot).session
        await ask(pilot, "hello there")
        await shown(pilot, "62% of the experts asked for had to be read.")
        await until(pilot, lambda: session.phase is Phase.READY and len(session.turns) == 2)
        assert [note.text for note in screen_of(pilot).transcript.query(Note)] == [f"{advice}."]
        await ask(pilot, "/quality balanced")
        await until(pilot, lambda: session.load.quality == "balanced")
