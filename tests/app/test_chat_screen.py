"""The chat screen driven by a pilot: what is shown, what keys do, and what the engine's death leaves."""

import asyncio
import os
import signal

import pytest
from textual.events import Paste
from textual.widgets._toast import Toast

from ebbtide.app.phase import Phase
from ebbtide.app.screens import double_press
from ebbtide.app.screens.changes import Changes
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.engine_events import EngineEvent
from ebbtide.app.turns_view import TurnsView
from ebbtide.app.widgets.turns import AnswerTurn, Note, UserTurn
from ebbtide.engine.messages import Failed, Turn
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    drawn,
    press,
    prompt_of,
    ready,
    screen_of,
    settled,
    shown,
    transcript_of,
    until,
    written,
)
from tests.helpers.fake_engine import Script

SIZES = [(80, 24), (120, 40)]
ENDLESS = Script(answer="word " * 5000, token_delay_s=0.02)
"""Still answering when every wait of a test has long ended."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_a_question_and_its_answer(size: tuple[int, int], theme: str) -> None:
    script = Script(answer="It is **forty-two**.\n\n```python\nx = 42\n```\n")
    async with chat_app(script, theme).run_test(size=size) as pilot:
        await ready(pilot)
        await answered(pilot, "what is it?")
        chat = ("what is it?", "forty-two", "x = 42")
        status = ("tiny", "ready", "tok/s", "context")
        memory = ("dense 60", "experts 160", "KV 40", "work 10", "free 30", "of 300 MiB")
        await shown(pilot, *chat, *status, *memory, without=("**", "```"))


async def test_the_first_paint_does_not_wait_for_the_engine() -> None:
    async with chat_app(Script(load_delay_s=300, progress_steps=3000)).run_test() as pilot:
        await until(pilot, lambda: screen_of(pilot).session.model.progress is not None)
        await shown(pilot, "loading")
        await until(pilot, lambda: prompt_of(pilot).has_focus)
        assert screen_of(pilot).session.loaded is None


async def test_keys_of_the_prompt() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "a", "ctrl+j", "b")
        await written(pilot, "a\nb")
        press(pilot, "enter")
        await until(pilot, lambda: len(screen_of(pilot).session.turns) == 2)
        assert screen_of(pilot).session.turns[0] == Turn("user", "a\nb")
        await written(pilot, "")


async def test_keys_that_come_in_one_burst_keep_their_order() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "a", "ctrl+j", "b", "enter", "c")
        await until(pilot, lambda: len(screen_of(pilot).session.turns) == 2)
        assert screen_of(pilot).session.turns[0].content == "a\nb"
        await written(pilot, "c")
        press(pilot, "backspace", "d", "e", "left", "f", "home", "g", "end", "backspace", "h")
        await written(pilot, "gdfh")


async def test_up_recalls_and_down_returns_to_the_draft() -> None:
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        for text in ("first", "second"):
            await answered(pilot, text)
        prompt_of(pilot).text = "draft"
        expected = ["second", "first", "first", "second", "draft"]
        for key, text in zip(("up", "up", "up", "down", "down"), expected, strict=True):
            await pilot.press(key)
            await settled(pilot)
            await written(pilot, text)


async def test_an_empty_prompt_sends_nothing() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "space", "enter", "x")
        await written(pilot, " x")
        assert screen_of(pilot).session.turns == []


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_stopping_keeps_the_partial_answer(key: str) -> None:
    async with chat_app(ENDLESS).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: screen_of(pilot).session.answer.text.count("word") > 3)
        press(pilot, key)
        await shown(pilot, "Stopped.", "ready")
        assert screen_of(pilot).session.turns[-1].content.startswith("word word")


async def test_ctrl_c_keeps_the_draft_one_up_away_and_quits_when_pressed_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(double_press, "DOUBLE_KEY_S", 600.0)  # a slow machine is no slow person
    app = chat_app(Script())
    async with app.run_test(notifications=True) as pilot:
        await ready(pilot)
        prompt_of(pilot).text = "a long draft"
        press(pilot, "ctrl+c")
        await written(pilot, "")
        press(pilot, "up")
        await written(pilot, "a long draft")
        press(pilot, "ctrl+c")
        await written(pilot, "")
        press(pilot, "ctrl+c")
        await shown(pilot, "Ctrl+C again quits.", "╭─", "─╯")
        assert not pilot.app.query(Toast), "nothing covers the prompt"
        assert app.is_running and not app._exit
        press(pilot, "ctrl+c")
        await until(pilot, lambda: app._exit)


@pytest.mark.parametrize("between", [["x", "backspace"], [*"/stats", "enter"], ["f2"], ["f1", "escape"]])
async def test_ctrl_c_again_quits_only_if_nothing_else_was_done(
    between: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(double_press, "DOUBLE_KEY_S", 600.0)
    app = chat_app(Script())
    async with app.run_test() as pilot:
        await ready(pilot)
        press(pilot, "ctrl+c")
        await shown(pilot, "Ctrl+C again quits.")
        for key in between:
            press(pilot, key)
            await settled(pilot)
        await until(pilot, lambda: isinstance(app.screen, ChatScreen))
        await shown(pilot, "ready", without=["Ctrl+C again quits."])
        press(pilot, "ctrl+c")
        await shown(pilot, "Ctrl+C again quits.")
        await pilot.mouse_down(offset=(10, 4))
        await shown(pilot, "ready", without=["Ctrl+C again quits."])
        assert not app._exit


async def test_a_hint_is_seen_on_the_lowest_screen_too() -> None:
    async with chat_app(Script()).run_test(size=(20, 5)) as pilot:
        await ready(pilot)
        press(pilot, "ctrl+c")
        await shown(pilot, "Ctrl+C again quits.")


async def test_ctrl_d_quits_only_on_an_empty_prompt() -> None:
    app = chat_app(Script())
    async with app.run_test() as pilot:
        await ready(pilot)
        press(pilot, "a", "b", "home", "ctrl+d")
        await written(pilot, "b")
        assert not app._exit
        press(pilot, "ctrl+d", "ctrl+d")
        await until(pilot, lambda: app._exit)


NO_MEMORY = "The engine has ended: no memory is in use."


async def test_the_engines_death_keeps_the_answer_and_the_next_question_reloads() -> None:
    async with chat_app(Script(answer="one two three four", die_after_tokens=2)).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "count")
        assert screen_of(pilot).session.phase is Phase.DIED
        text = await shown(pilot, "killed by SIGKILL", "one two", "engine died", NO_MEMORY)
        assert "/regenerate tries again" in text and "Press Enter" not in text
        assert "experts" not in text and "tok/s" not in text, "nothing looks as if the engine were there"
        await answered(pilot, "again")
        contents = [turn.content for turn in screen_of(pilot).session.turns]
        assert contents == ["count", "one two", "again", "one two"]


async def test_a_question_that_got_no_word_is_in_the_prompt_again() -> None:
    async with chat_app(Script(answer="one two", die_after_tokens=0)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "count")
        await shown(pilot, "killed by SIGKILL", "Press Enter to try again", NO_MEMORY)
        await until(pilot, lambda: prompt_of(pilot).text == "count")
        assert screen_of(pilot).session.turns == []
        life = screen_of(pilot).session.model.life
        press(pilot, "enter")
        await until(pilot, lambda: screen_of(pilot).session.model.life == life + 1)


async def test_a_model_that_is_not_loaded_holds_nothing_and_the_bar_says_so() -> None:
    async with chat_app(Script(load_failure=["it is corrupt", "Fetch it again.", "3"])).run_test() as pilot:
        await shown(pilot, "no model", "No model is loaded: no memory is in use.")


async def test_an_engine_that_dies_while_nothing_is_asked() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        pid = screen_of(pilot).session.model._engine.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await shown(pilot, "killed by SIGKILL", "Ask something: the model is loaded anew", NO_MEMORY)
        await answered(pilot, "hello")
        await shown(pilot, "You said: hello", "of 300 MiB", without=[NO_MEMORY])


async def test_a_question_stopped_before_the_first_word_is_in_the_prompt_again() -> None:
    async with chat_app(Script(answer="one two", token_delay_s=1.0)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "count")
        await until(pilot, lambda: screen_of(pilot).session.phase is Phase.READING)
        press(pilot, "escape")
        await written(pilot, "count")
        await shown(pilot, "Stopped.")
        assert screen_of(pilot).session.turns == []


async def test_a_question_that_comes_back_stands_in_front_of_what_was_typed_meanwhile() -> None:
    async with chat_app(Script(answer="one two", token_delay_s=1.0)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "count")
        await until(pilot, lambda: screen_of(pilot).session.phase is Phase.READING)
        prompt_of(pilot).text = "and then"
        press(pilot, "escape")
        await until(pilot, lambda: not screen_of(pilot).session.busy)
        await written(pilot, "count\nand then")
        assert prompt_of(pilot).cursor_location == (1, 8)


async def test_a_question_to_a_model_that_does_not_load_is_in_the_prompt_again() -> None:
    failure = ["the file is corrupt", "Fetch it again.", "3"]
    async with chat_app(Script(load_failure=failure)).run_test() as pilot:
        await shown(pilot, "no model")
        await ask(pilot, "anyone?")
        await written(pilot, "")
        await written(pilot, "anyone?")
        assert drawn(pilot.app).count("Fetch it again.") == 1, "the same is not said twice"
        assert screen_of(pilot).session.turns == []


async def test_what_an_ended_engine_still_said_undoes_nothing() -> None:
    """`/budget` ends an engine of which the last word may still wait to be handled."""
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        screen = screen_of(pilot)
        late = EngineEvent(Failed(0, "the old one failed", "", 4), screen.session.model.life)
        await ask(pilot, "/budget 60%")
        await until(pilot, lambda: screen.session.model.life > late.life)
        screen.post_message(late)
        await until(pilot, lambda: screen.session.loaded is not None)
        await settled(pilot)
        assert (screen.session.load.budget, screen.session.phase) == ("60%", Phase.READY)
        assert "the old one failed" not in drawn(pilot.app)


async def test_a_failed_load_says_what_to_do() -> None:
    failure = ["the file is corrupt", "Fetch it again.", "3"]
    async with chat_app(Script(load_failure=failure)).run_test() as pilot:
        await shown(pilot, "Fetch it again.", "no model")


async def test_commands() -> None:
    async with chat_app(Script(notices=["a notice of the load"])).run_test(size=(80, 30)) as pilot:
        await ready(pilot)
        await shown(pilot, "a notice of the load")
        await ask(pilot, "/nonsense")
        await shown(pilot, "no command /nonsense")
        await written(pilot, "/nonsense")
        await ask(pilot, "/hepl me")
        await shown(pilot, "Did you mean /help?")
        await written(pilot, "/hepl me")
        assert screen_of(pilot).session.turns == []
        await answered(pilot, "/etc/passwd is a path")
        await ask(pilot, "/new")
        await until(pilot, lambda: transcript_of(pilot).turns == [])
        assert screen_of(pilot).session.turns == []
        await ask(pilot, "/bye")
        await until(pilot, lambda: pilot.app._exit)


async def test_what_is_typed_while_a_chat_is_changed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    began, goes_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()
    clear, change = TurnsView.clear, Changes._show_other_chat

    async def slow_clear(view: TurnsView) -> None:
        began.set()
        await goes_on.wait()
        await clear(view)

    async def watched_change(changes: Changes) -> None:
        await change(changes)
        done.set()

    monkeypatch.setattr(TurnsView, "clear", slow_clear)
    monkeypatch.setattr(Changes, "_show_other_chat", watched_change)
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/new")
        await began.wait()
        prompt_of(pilot).text = "already the next question"
        goes_on.set()
        await done.wait()
        assert prompt_of(pilot).text == "already the next question"


async def test_a_new_chat_in_the_middle_of_an_answer() -> None:
    async with chat_app(ENDLESS).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        await ask(pilot, "/new")
        await until(pilot, lambda: transcript_of(pilot).turns == [])
        assert screen_of(pilot).session.turns == []
        await ask(pilot, "once more")
        # Once there is a word of the new answer, all of the old one has come.
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        assert [type(turn) for turn in transcript_of(pilot).turns] == [UserTurn, AnswerTurn]
        assert screen_of(pilot).session.turns == [Turn("user", "once more")]


EVIL = "\x1b]0;owned\x07 [red]x[/red] [link=a]\x9b2J <b>tag</b> [/] \\[ end"


@pytest.mark.parametrize(
    "text", [EVIL, f"```\n{EVIL}\n```\n\n", f"| a |\n|---|\n| {EVIL} |\n\n", f"- {EVIL}\n\n"]
)
async def test_content_is_neither_markup_nor_control(text: str) -> None:
    async with chat_app(Script(answer=text, notices=[EVIL])).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await until(pilot, lambda: drawn(pilot.app).count("[red]x[/red]") == 1)
        assert "\x1b" not in drawn(pilot.app)
        await answered(pilot, EVIL)
        # The question, the answer; and the title in the status line. The notice has made way.
        await until(pilot, lambda: drawn(pilot.app).count("[red]x[/red]") == 3)
        await until(pilot, lambda: drawn(pilot.app).count("<b>tag</b>") >= 3)
        text = drawn(pilot.app)
        assert "\x1b" not in text and "\x9b" not in text and "\x07" not in text


async def test_a_paste_loses_its_control_characters_and_sends_nothing() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).post_message(Paste("a\r\nb\x1b[31m\r"))
        await written(pilot, "a\nb[31m\n")
        assert screen_of(pilot).session.turns == []


async def test_turns_are_in_order() -> None:
    """What is said about a load makes way for what follows."""
    async with chat_app(Script(answer="ok", notices=["n", "another"])).run_test() as pilot:
        await ready(pilot)
        await shown(pilot, "· n", "another")
        assert [type(turn) for turn in transcript_of(pilot).turns] == [Note]
        await answered(pilot, "q")
        kinds = [type(turn) for turn in transcript_of(pilot).turns]
        assert kinds == [UserTurn, AnswerTurn]
