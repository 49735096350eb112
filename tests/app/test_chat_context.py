"""A full context: nothing is left out silently; each way out is a choice, the gentle one can be undone."""

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from ebbtide.app.context_choice import messages_to_leave_out
from ebbtide.app.phase import Phase
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
    settled,
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


CUT_OFF = Script(answer="word " * 40, token_delay_s=0.03, finish_reason="context", ctx=40)


async def test_the_choice_does_not_open_while_something_is_written() -> None:
    async with chat_app(CUT_OFF).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        press(pilot, *"my draft")
        await until(pilot, lambda: len(contents(pilot)) == 2)
        await shown(pilot, "The context is full: Enter shows what can be done", "my draft")
        press(pilot, *", more", "enter")
        await choosing(pilot, "Ask in a new chat")
        await written(pilot, "my draft, more")
        await until(pilot, lambda: contents(pilot)[:1] == ["one"])
        assert len(screen_of(pilot).session.keeper.store.list_chats()) == 2


async def test_a_question_that_did_not_fit_waits_for_enter_while_the_next_is_written() -> None:
    script = Script(ctx=40, request_failure=FULL, fail_when_turns=3, failure_delay_s=1.0)
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await ask(pilot, "two")
        press(pilot, *"three")
        await shown(pilot, "The context is full: Enter shows what can be done")
        await written(pilot, "two\nthree")
        press(pilot, "enter")
        await choosing(pilot, "Ask in a new chat")
        await until(pilot, lambda: contents(pilot) == ["two", "You said: two"])
        await written(pilot, "three")


async def test_a_list_that_is_open_is_not_covered_and_enter_comes_back_to_it() -> None:
    async with chat_app(CUT_OFF).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        screen = screen_of(pilot)
        press(pilot, "ctrl+r")
        await shown(pilot, "What you wrote before")
        await until(pilot, lambda: len(screen.session.turns) == 2)
        await settled(pilot)
        assert len(pilot.app.screen_stack) == 3
        press(pilot, "escape")
        await shown(pilot, "Enter shows what can be done", without=["What you wrote before"])
        press(pilot, "enter")
        await choosing(pilot, "Edit the last question")


async def test_a_command_that_makes_room_is_run_and_the_next_question_is_sent() -> None:
    async with chat_app(CUT_OFF).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "one")
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        press(pilot, *"/new")
        await shown(pilot, "Enter shows what can be done")
        press(pilot, "enter")
        await until(pilot, lambda: contents(pilot) == [])
        await ask(pilot, "two")
        await until(pilot, lambda: contents(pilot)[:1] == ["two"])


LONG = "long " * 100
ALONE = ["the question alone has 500 tokens and the context holds 40", "Shorten it.", "5", "500"]


async def too_long(pilot: Pilot[None]) -> str:
    """Ask what alone is longer than the context; returns the screen with the choice."""
    await ready(pilot)
    await ask(pilot, LONG)
    await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
    return await shown(pilot, "The question alone (500 tokens) is larger than the context (40)")


async def test_a_question_too_long_for_any_chat_can_be_shortened() -> None:
    async with chat_app(Script(ctx=40, request_failure=ALONE)).run_test(size=(100, 40)) as pilot:
        text = await too_long(pilot)
        assert "Back to the prompt" in text and "the text is kept" in text
        assert not any(way in text for way in ("new chat", "Leave the oldest", "Load again"))
        press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await written(pilot, LONG)
        assert contents(pilot) == []


async def test_own_words_behind_a_paste_that_is_too_long_stay_as_they_were_written() -> None:
    paste = "many words\n" * 300
    async with chat_app(Script(ctx=40, request_failure=ALONE)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        prompt_of(pilot).post_message(Paste(paste))
        await written(pilot, "[pasted 300 lines]")
        press(pilot, *" why?", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await written(pilot, "[pasted 300 lines] why?")
        assert prompt_of(pilot).whole_text == f"{paste} why?"


async def test_where_the_model_can_a_larger_context_takes_it() -> None:
    script = Script(ctx=40, request_failure=ALONE, fail_below_ctx=1000, model_ctx=8192, answer="ok")
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        text = await too_long(pilot)
        assert "Load again with a context of 1,024 tokens" in text and "Back to the prompt" in text
        press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await until(pilot, lambda: contents(pilot) == [LONG, "ok"])
        session = screen_of(pilot).session
        assert session.load.ctx == 1024 and session.loaded is not None and session.loaded.ctx == 1024
        await written(pilot, "")


async def test_a_prompt_that_does_not_fit_says_so_before_it_is_sent() -> None:
    async with chat_app(Script(ctx=60)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        prompt_of(pilot).text = "x" * 60
        await shown(pilot, "60 tokens: more than the whole context (60)", "context 0 + 60 / 60 too long")
        prompt_of(pilot).text = "x"
        await shown(pilot, "context 0 / 60", without=["too long", "more than"])
        await answered(pilot, "one two three")
        prompt_of(pilot).text = "x" * 55
        await shown(pilot, "55 tokens: the context has room for 52", "context 8 + 55 / 60 too long")


async def test_a_prompt_that_fits_no_more_after_an_answer_says_so() -> None:
    script = Script(ctx=60, answer="word " * 20, token_delay_s=0.02)
    async with chat_app(script).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "hello")
        await until(pilot, lambda: screen_of(pilot).session.busy)
        prompt_of(pilot).text = "x" * 45
        await shown(pilot, "45 tokens: the context has room for 38")


async def test_the_context_can_be_changed_but_not_beyond_the_model() -> None:
    async with chat_app(Script(model_ctx=8192)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "/ctx")
        await shown(pilot, "The context is 4,096 tokens, of 8,192 that the model can have.")
        life = screen_of(pilot).session.model.life
        for wish, words in {"9000": "8,192 tokens at most", "many": "not a number of tokens"}.items():
            await ask(pilot, f"/ctx {wish}")
            await shown(pilot, words)
        assert screen_of(pilot).session.model.life == life
        await ask(pilot, "/ctx 8,192")
        await shown(pilot, "/ 8,192")


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("5MiB", ["/budget 5MiB is too small", "/budget 112 MiB or more", "stays loaded"]),
        ("0", ["A budget of 0", "leaves nothing"]),
        ("200%", ["more than all experts"]),
    ],
)
async def test_a_budget_that_cannot_work_is_refused_before_the_model_is_let_go(
    wish: str, words: list[str]
) -> None:
    async with chat_app(Script(smallest_budget_bytes=112 << 20)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        session = screen_of(pilot).session
        life = session.model.life
        await ask(pilot, f"/budget {wish}")
        text = await shown(pilot, *words)
        assert "--budget" not in text
        assert (session.model.life, session.phase, session.load.budget) == (life, Phase.READY, "auto")


async def test_what_the_engine_advises_is_said_in_the_chats_own_words() -> None:
    failure = ["A budget of 1GB is too small.", "Give --budget 2GB or more, or --ctx 512 or less.", "4"]
    async with chat_app(Script(load_failure=failure)).run_test(size=(100, 40)) as pilot:
        await shown(pilot, "Give /budget 2GB or more, or /ctx 512 or less.")


async def test_the_meter_says_when_little_is_left() -> None:
    async with chat_app(Script(ctx=10)).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await answered(pilot, "one two three four")
        await shown(pilot, "context 10 / 10", "full")
