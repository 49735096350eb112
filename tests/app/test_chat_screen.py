"""The chat screen driven by a pilot: what is shown, what keys do, and what the engine's death leaves."""

import pytest
from textual.events import Key, Paste

from ebbtide.app.chat_session import Phase
from ebbtide.app.widgets.turns import AnswerTurn, Note, UserTurn
from ebbtide.engine.messages import Turn
from tests.helpers.chat_host import (
    ask,
    chat_app,
    prompt_of,
    ready,
    screen_of,
    shown_text,
    transcript_of,
    until,
)
from tests.helpers.fake_engine import Script

SIZES = [(80, 24), (120, 40)]
ENDLESS = "word " * 5000


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_a_question_and_its_answer(size: tuple[int, int], theme: str) -> None:
    script = Script(answer="It is **forty-two**.\n\n```python\nx = 42\n```\n")
    async with chat_app(script, theme).run_test(size=size) as pilot:
        await ready(pilot)
        await ask(pilot, "what is it?")
        await until(pilot, lambda: len(screen_of(pilot).session.turns) == 2)
        text = shown_text(pilot)
        assert "what is it?" in text and "forty-two" in text and "x = 42" in text
        assert "**" not in text and "```" not in text
        assert "tiny" in text and "ready" in text and "tok/s" in text and "context" in text
        for word in ("dense 60", "experts 160", "KV 40", "work 10", "free 30", "of 300 MiB"):
            assert word in text


async def test_the_first_paint_does_not_wait_for_the_engine() -> None:
    async with chat_app(Script(load_delay_s=30, progress_steps=300)).run_test() as pilot:
        await until(pilot, lambda: screen_of(pilot).session.progress is not None)
        await until(pilot, lambda: "loading" in shown_text(pilot))
        assert prompt_of(pilot).has_focus


async def test_keys_of_the_prompt() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await pilot.press("a", "ctrl+j", "b", "enter")
        await until(pilot, lambda: len(screen_of(pilot).session.turns) == 2)
        assert screen_of(pilot).session.turns[0] == Turn("user", "a\nb")
        assert prompt_of(pilot).text == ""


async def test_keys_that_come_in_one_burst_keep_their_order() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        for key, character in (("a", "a"), ("ctrl+j", None), ("b", "b"), ("enter", None), ("c", "c")):
            pilot.app.post_message(Key(key, character))
        await until(pilot, lambda: len(screen_of(pilot).session.turns) == 2)
        assert screen_of(pilot).session.turns[0].content == "a\nb"
        assert prompt_of(pilot).text == "c"


async def test_up_recalls_and_down_returns_to_the_draft() -> None:
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        for text in ("first", "second"):
            await ask(pilot, text)
            await until(pilot, lambda: not screen_of(pilot).session.busy)
        prompt_of(pilot).text = "draft"
        seen = []
        for key in ("up", "up", "up", "down", "down"):
            await pilot.press(key)
            seen.append(prompt_of(pilot).text)
        assert seen == ["second", "first", "first", "second", "draft"]


async def test_an_empty_prompt_sends_nothing() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await pilot.press("space", "enter")
        assert screen_of(pilot).session.turns == []


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_stopping_keeps_the_partial_answer(key: str) -> None:
    async with chat_app(Script(answer=ENDLESS, token_delay_s=0.005)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: screen_of(pilot).session.partial.count("word") > 3)
        await pilot.press(key)
        await ready(pilot)
        assert screen_of(pilot).session.turns[-1].content.startswith("word word")
        assert "Stopped." in shown_text(pilot)


async def test_ctrl_c_keeps_the_draft_one_up_away_and_quits_when_pressed_twice() -> None:
    app = chat_app(Script())
    async with app.run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).text = "a long draft"
        await pilot.press("ctrl+c")
        assert prompt_of(pilot).text == ""
        await pilot.press("up")
        assert prompt_of(pilot).text == "a long draft"
        await pilot.press("ctrl+c", "ctrl+c")
        assert app.is_running
        await pilot.press("ctrl+c")
        assert not app._running or app._exit


async def test_ctrl_d_quits_only_on_an_empty_prompt() -> None:
    app = chat_app(Script())
    async with app.run_test() as pilot:
        await ready(pilot)
        await pilot.press("a", "b", "home", "ctrl+d")
        assert prompt_of(pilot).text == "b" and not app._exit
        await pilot.press("ctrl+d", "ctrl+d")
        assert app._exit


async def test_the_engines_death_keeps_the_answer_and_the_next_question_reloads() -> None:
    async with chat_app(Script(answer="one two three four", die_after_tokens=2)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "count")
        await until(pilot, lambda: screen_of(pilot).session.phase is Phase.DIED)
        await until(pilot, lambda: "killed by SIGKILL" in shown_text(pilot))
        assert "one two" in shown_text(pilot) and "engine died" in shown_text(pilot)
        await ask(pilot, "again")
        await until(pilot, lambda: screen_of(pilot).session.phase is Phase.DIED)
        contents = [turn.content for turn in screen_of(pilot).session.turns]
        assert contents == ["count", "one two", "again", "one two"]


async def test_a_failed_load_says_what_to_do() -> None:
    failure = ["the file is corrupt", "Fetch it again.", "3"]
    async with chat_app(Script(load_failure=failure)).run_test() as pilot:
        await until(pilot, lambda: "Fetch it again." in shown_text(pilot))
        assert "no model" in shown_text(pilot)


async def test_commands() -> None:
    async with chat_app(Script(notices=["a notice of the load"])).run_test(size=(80, 30)) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "a notice of the load" in shown_text(pilot))
        await ask(pilot, "/help")
        await until(pilot, lambda: "begin a new chat" in shown_text(pilot))
        await ask(pilot, "/nonsense")
        await until(pilot, lambda: "no command /nonsense" in shown_text(pilot))
        await ask(pilot, "/etc/passwd is a path")
        await until(pilot, lambda: len(screen_of(pilot).session.turns) == 2)
        await ask(pilot, "/new")
        await until(pilot, lambda: transcript_of(pilot).turns == [])
        assert screen_of(pilot).session.turns == []
        await ask(pilot, "/bye")
        assert pilot.app._exit


async def test_a_new_chat_in_the_middle_of_an_answer() -> None:
    async with chat_app(Script(answer=ENDLESS, token_delay_s=0.005)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word" in screen_of(pilot).session.partial)
        await ask(pilot, "/new")
        await pilot.pause(0.2)
        assert transcript_of(pilot).turns == [] and screen_of(pilot).session.turns == []


async def test_one_answer_at_a_time() -> None:
    async with chat_app(Script(answer=ENDLESS, token_delay_s=0.005)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word" in screen_of(pilot).session.partial)
        await ask(pilot, "and this?")
        assert prompt_of(pilot).text == "and this?"
        assert len(screen_of(pilot).session.turns) == 1


EVIL = "\x1b]0;owned\x07 [red]x[/red] [link=a]\x9b2J <b>tag</b> [/] \\[ end"


@pytest.mark.parametrize(
    "text", [EVIL, f"```\n{EVIL}\n```\n\n", f"| a |\n|---|\n| {EVIL} |\n\n", f"- {EVIL}\n\n"]
)
async def test_content_is_neither_markup_nor_control(text: str) -> None:
    async with chat_app(Script(answer=text, notices=[EVIL])).run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, EVIL)
        await ready(pilot)
        await until(pilot, lambda: shown_text(pilot).count("[red]x[/red]") == 3)
        shown = shown_text(pilot)
        assert "\x1b" not in shown and "\x9b" not in shown and "\x07" not in shown
        assert shown.count("<b>tag</b>") == 3


async def test_a_paste_loses_its_control_characters_and_sends_nothing() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).post_message(Paste("a\r\nb\x1b[31m\r"))
        await pilot.pause()
        assert prompt_of(pilot).text == "a\nb[31m\n"
        assert screen_of(pilot).session.turns == []


async def test_turns_are_in_order() -> None:
    async with chat_app(Script(answer="ok", notices=["n"])).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "q")
        await ready(pilot)
        kinds = [type(turn) for turn in transcript_of(pilot).turns]
        assert kinds == [Note, UserTurn, AnswerTurn]
