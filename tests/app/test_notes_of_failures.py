"""What goes wrong is said once, where it is seen, and goes when it is of no use any more."""

from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.picker import Picker
from ebbtide.app.screens.text_page import TextPage
from ebbtide.app.widgets.status_line import StatusLine
from ebbtide.app.widgets.turns import Note
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    press,
    ready,
    screen_of,
    settled,
    shown,
    transcript_of,
    until,
    written,
)
from tests.helpers.fake_engine import Script

LONG = "word\n\n" * 60


async def test_an_end_behind_another_screen_is_said_when_the_chat_is_seen_again() -> None:
    async with chat_app(Script(answer=LONG)).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        chat = screen_of(pilot)
        await answered(pilot, "long")
        await settled(pilot)
        await transcript_of(pilot).to_start()
        await until(pilot, lambda: not chat.transcript.follows)
        press(pilot, "f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextPage))
        await chat.events.answer_ended("The engine has ended.", "error")
        line = chat.query_one(StatusLine)
        line.say("")  # its time is over
        press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await shown(pilot, "The engine has ended.")


async def test_an_end_is_said_in_the_status_line_while_the_reader_is_elsewhere() -> None:
    async with chat_app(Script(answer=LONG)).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        chat = screen_of(pilot)
        await answered(pilot, "long")
        await settled(pilot)
        await transcript_of(pilot).to_start()
        await until(pilot, lambda: not chat.transcript.follows)
        await chat.events.answer_ended("Stopped.")
        await shown(pilot, "Stopped.")


async def test_why_a_model_is_not_there_outlives_the_return_of_the_one_before() -> None:
    script = Script(
        load_failure=["the model does not fit", "Give it more.", "4"],
        load_failure_of="large",
        notices=["Widths are chosen by the weights' errors alone."],
    )
    async with chat_app(script).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await shown(pilot, "Widths are chosen")
        await ask(pilot, "/model large.gguf")
        await until(pilot, lambda: screen_of(pilot).session.error is not None)
        await ready(pilot)
        await settled(pilot)
        await shown(pilot, "does not fit", "is being loaded again", without=["Widths are chosen"])
        assert screen_of(pilot).session.load.path == "/models/tiny.gguf"


async def test_a_question_that_does_not_fit_is_told_once() -> None:
    failure = ["the context is full", "Leave something out.", "5"]
    async with chat_app(Script(answer="ok", request_failure=failure, fail_when_turns=3)).run_test(
        size=(100, 30)
    ) as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await ask(pilot, "two")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "The context is full")
        press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert [turn for turn in transcript_of(pilot).turns if isinstance(turn, Note)] == []


async def test_a_failure_without_an_answer_goes_when_something_follows() -> None:
    failure = ["the machine is on fire", "Put it out.", "1"]
    script = Script(answer="fine", request_failure=failure, fail_when_turns=3)
    async with chat_app(script).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await ask(pilot, "two")
        await shown(pilot, "on fire")
        await written(pilot, "two")
        await ask(pilot, "/new")
        await until(pilot, lambda: not screen_of(pilot).session.turns)
        await answered(pilot, "three")
        await shown(pilot, "fine", without=["on fire"])


async def test_a_failure_that_ends_an_answer_stays_behind_it() -> None:
    failure = ["the machine is on fire", "Put it out.", "1"]
    script = Script(answer="one two three", request_failure=failure, fail_after_tokens=2, fail_when_turns=1)
    async with chat_app(script).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await shown(pilot, "one two", "on fire")
        await ask(pilot, "/system none")
        await shown(pilot, "one two", "on fire", "No system prompt")


async def test_a_budget_that_the_engine_refuses_is_no_news_after_the_next_answer() -> None:
    script = Script(answer="fine", load_failure=["Does not fit", "Give more.", "4"])
    async with chat_app(script).run_test(size=(100, 30)) as pilot:
        await shown(pilot, "Does not fit")
        note = next(turn for turn in transcript_of(pilot).turns if isinstance(turn, Note))
        assert note.passing
