"""A full context: nothing is left out silently; each way out is a choice, the gentle one can be undone."""

from textual.pilot import Pilot

from ebbtide.app.context_choice import messages_to_leave_out
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.picker import Picker
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    press,
    prompt_of,
    ready,
    screen_of,
    shown,
    until,
    written,
)
from tests.helpers.fake_engine import Script

FULL = ["the prompt has 5,000 tokens and the context holds 40", "Shorten the prompt.", "5"]


def contents(pilot: Pilot[None]) -> list[str]:
    return [turn.content for turn in screen_of(pilot).session.turns]


async def choosing(pilot: Pilot[None], way: str) -> None:
    """Take the row that says `way`."""
    await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
    await shown(pilot, "The context is full", way)
    picker = pilot.app.screen
    press(pilot, *way)
    assert isinstance(picker, Picker)
    await until(pilot, lambda: len(picker.choices) == 1)
    press(pilot, "enter")
    await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


async def test_the_oldest_turns_are_left_out_only_when_the_person_says_so() -> None:
    script = Script(ctx=40, request_failure=FULL, fail_when_turns=5)
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        for text in ("one", "two"):
            await answered(pilot, text)
        await ask(pilot, "three")
        await choosing(pilot, "Leave the oldest")
        await until(pilot, lambda: contents(pilot)[-1:] == ["You said: three"])
        assert len(contents(pilot)) == 6
        await shown(pilot, "not sent to the model", "/untrim undoes it", "You said: one")
        sent = screen_of(pilot).session.conversation.sent
        assert len(sent) < 6 and sent[-2].content == "three"
        await ask(pilot, "/untrim")
        await until(pilot, lambda: len(screen_of(pilot).session.conversation.sent) == 6)


async def test_a_new_chat_takes_the_question_and_leaves_the_old_chat_alone() -> None:
    script = Script(ctx=40, request_failure=FULL, fail_when_turns=3)
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await ask(pilot, "two")
        await choosing(pilot, "Ask in a new chat")
        await until(pilot, lambda: contents(pilot) == ["two", "You said: two"])
        assert len(screen_of(pilot).session.keeper.store.list_chats()) == 2


async def test_escape_leaves_everything_as_it_was_and_the_question_one_up_away() -> None:
    script = Script(ctx=40, request_failure=FULL, fail_when_turns=3)
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await ask(pilot, "two")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await until(pilot, lambda: prompt_of(pilot).has_focus)
        assert contents(pilot) == ["one", "You said: one"]
        press(pilot, "up")
        await written(pilot, "two")


async def test_an_answer_that_the_context_cut_off_can_be_made_again_with_more_room() -> None:
    script = Script(ctx=40, finish_reason="context")
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        for text in ("one", "two"):
            await ask(pilot, text)
            await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
            press(pilot, "escape")
            await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert len(contents(pilot)) == 4
        assert messages_to_leave_out(screen_of(pilot).session) == 2


async def test_a_question_too_long_for_any_chat_can_only_be_edited() -> None:
    async with chat_app(Script(ctx=40, request_failure=FULL)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "long " * 100)
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        text = await shown(pilot, "The context is full", "Edit the last question")
        assert "Ask in a new chat" not in text and "Leave the oldest" not in text
        press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        assert prompt_of(pilot).text.startswith("long long")


async def test_the_meter_says_when_little_is_left() -> None:
    async with chat_app(Script(ctx=10)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await answered(pilot, "one two three four")
        await shown(pilot, "context 10 / 10", "full")
