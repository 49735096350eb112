"""Turns by keyboard: edit, answer again, versions, fork, copy, leave out, unfold; all in the tree."""

import pytest
from textual.pilot import Pilot

from ebbtide.app import clipboard
from ebbtide.app.widgets.status_line import StatusLine
from ebbtide.app.widgets.turn_chooser import TurnChooser
from ebbtide.app.widgets.turns import AnswerTurn
from ebbtide.engine.messages import Turn
from tests.helpers.chat_host import (
    answered,
    ask,
    chat_app,
    drawn,
    press,
    prompt_of,
    ready,
    screen_of,
    shown,
    transcript_of,
    until,
    written,
)
from tests.helpers.fake_engine import Script

CODE = "Look:\n\n```python\nx = 1\n```\n\n- inside\n  ```sh\n  ls\n  ```\n"
ENDLESS = Script(answer="word " * 5000, token_delay_s=0.02)


def contents(pilot: Pilot[None]) -> list[str]:
    return [turn.content for turn in screen_of(pilot).session.turns]


async def choosing(pilot: Pilot[None], *keys: str) -> None:
    """Press keys once the line for choosing has the focus."""
    press(pilot, "ctrl+up")
    await until(pilot, lambda: screen_of(pilot).query_one(TurnChooser).has_focus)
    press(pilot, *keys)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reaches the terminal; no desktop, no tmux."""
    for name in ("TMUX", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSH_TTY", "/dev/pts/1")
    monkeypatch.setattr(clipboard, "desktop_tool", lambda *_: [])
    return []


async def test_esc_esc_edits_the_last_question_and_both_versions_stay() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "first")
        await answered(pilot, "secnod")
        press(pilot, "escape", "escape")
        await written(pilot, "secnod")
        await shown(pilot, "editing the last question")
        await ask(pilot, "second")
        await until(pilot, lambda: contents(pilot)[-1] == "You said: second")
        assert contents(pilot) == ["first", "You said: first", "second", "You said: second"]
        await shown(pilot, "◂ 2/2 ▸", "You said: second", without=["secnod"])


async def test_which_question_is_edited_is_said() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "first")
        await answered(pilot, "second")
        screen = screen_of(pilot)
        first, _, second, answer = screen.session.conversation.path
        for message, words in ((first, "an earlier"), (second, "the last")):
            screen.changes.edit(message)
            await shown(pilot, f"editing {words} question")
        assert answer.parent is second


async def test_versions_are_switched_with_their_answers() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        press(pilot, "escape", "escape")
        await written(pilot, "one")
        await ask(pilot, "two")
        await until(pilot, lambda: contents(pilot) == ["two", "You said: two"])
        await choosing(pilot, "up", "left")
        await until(pilot, lambda: contents(pilot) == ["one", "You said: one"])
        await shown(pilot, "You said: one", "◂ 1/2 ▸", without=["You said: two"])


async def test_an_edit_that_is_left_changes_nothing() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        press(pilot, "escape", "escape")
        await written(pilot, "one")
        press(pilot, "escape")
        await written(pilot, "")
        await answered(pilot, "two")
        assert contents(pilot) == ["one", "You said: one", "two", "You said: two"]


async def test_an_answer_is_made_again_beside_the_old_one() -> None:
    async with chat_app(Script(answer="the answer")).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await ask(pilot, "/regenerate")
        await shown(pilot, "◂ 2/2 ▸")
        await until(pilot, lambda: contents(pilot) == ["q", "the answer"])
        await until(pilot, lambda: drawn(pilot.app).count("the answer") == 1)


async def test_all_keys_of_a_chosen_turn_are_seen_and_its_versions_stand_apart() -> None:
    async with chat_app(Script(answer=CODE)).run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await ask(pilot, "/regenerate")
        await shown(pilot, "◂ 2/2 ▸")
        await until(pilot, lambda: not screen_of(pilot).session.busy)
        lines = [line.strip(" │╭╮╰╯─▌") for line in drawn(pilot.app).split("\n")]
        at = next(number for number, line in enumerate(lines) if "◂ 2/2 ▸" in line)
        assert lines[at - 1] == lines[at + 1] == ""
        await choosing(pilot, "up")
        keys = ("Esc back", "e edit", "←→ versions", "1-9 code", "x omit", "Enter unfold")
        await shown(pilot, *keys)


async def test_an_earlier_turn_is_answered_again() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await answered(pilot, "two")
        await choosing(pilot, "up", "up", "up", "r")
        await until(pilot, lambda: contents(pilot) == ["one", "You said: one"])
        await shown(pilot, "◂ 2/2 ▸", without=["two"])
        await choosing(pilot, "left")
        await until(pilot, lambda: len(contents(pilot)) == 4)


async def test_a_fork_goes_on_without_the_rest() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "one")
        await answered(pilot, "two")
        old = screen_of(pilot).session.keeper.chat
        await choosing(pilot, "up", "up", "f")
        await until(pilot, lambda: contents(pilot) == ["one", "You said: one"])
        await answered(pilot, "other")
        keeper = screen_of(pilot).session.keeper
        assert old is not None and keeper.chat is not None and keeper.chat.id != old.id
        assert len(keeper.store.path(keeper.store.get_chat(old.id).head_id)) == 4


async def test_turns_left_out_are_shown_but_not_sent_and_come_back() -> None:
    async with chat_app(Script()).run_test(size=(80, 40)) as pilot:
        await ready(pilot)
        for text in ("one", "two"):
            await answered(pilot, text)
        await ask(pilot, "/trim 2")
        await shown(pilot, "not sent to the model", "You said: one")
        assert screen_of(pilot).session.conversation.sent == [
            Turn("user", "two"),
            Turn("assistant", "You said: two"),
        ]
        await ask(pilot, "/untrim")
        await shown(pilot, "All messages are sent again", without=["not sent to the model\n"])
        assert len(screen_of(pilot).session.conversation.sent) == 4


async def test_code_blocks_are_numbered_and_copied_exactly(copies: list[str]) -> None:
    app = chat_app(Script(answer=CODE))
    async with app.run_test(notifications=True) as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await shown(pilot, "python  1", "sh  2")
        await ask(pilot, "/copy 1")
        await shown(pilot, "to the terminal")
        assert app.clipboard == "x = 1\n"
        await ask(pilot, "/copy 2")
        await until(pilot, lambda: app.clipboard == "ls\n")
        await ask(pilot, "/copy")
        await until(pilot, lambda: app.clipboard == CODE.strip())
        await choosing(pilot, "1")
        await until(pilot, lambda: app.clipboard == "x = 1\n")
        press(pilot, "escape")
        await until(pilot, lambda: prompt_of(pilot).has_focus)
        await ask(pilot, "/copy 9")
        await shown(pilot, "no code block 9", "It has 2.")


async def test_thinking_is_folded_counted_and_unfolded() -> None:
    thought = "<think>\nhidden thoughts here\n</think>\n\nThe answer."
    async with chat_app(Script(answer=thought)).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await shown(
            pilot, "▸ thought for", "tokens", "The answer.", without=["hidden", "<think>", "</think>"]
        )
        await choosing(pilot, "enter")
        await shown(pilot, "▾ thought for", "hidden thoughts here")
        press(pilot, "enter")
        await shown(pilot, "▸ thought for", without=["hidden"])


@pytest.mark.parametrize("opened", [True, False])
async def test_only_a_closing_tag_appears(opened: bool) -> None:
    script = Script(answer="hidden thoughts </think> The answer.", opens_thinking=opened)
    async with chat_app(script).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await shown(pilot, "▸ thought for", "The answer.", without=["hidden", "think>"])
        answer = transcript_of(pilot).turns[-1]
        assert isinstance(answer, AnswerTurn) and answer.content.thinking.strip() == "hidden thoughts"


async def test_letters_leave_the_choice_and_go_to_the_prompt() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        await choosing(pilot, "w")
        await written(pilot, "w")
        await until(pilot, lambda: prompt_of(pilot).has_focus)


async def test_nothing_is_edited_while_an_answer_is_written() -> None:
    async with chat_app(ENDLESS).run_test(size=(80, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        for command in ("/edit", "/regenerate", "/fork", "/budget 50%"):
            await ask(pilot, command)
            await shown(pilot, "An answer is being written")
            await ask(pilot, "/density")
            await ask(pilot, "/nonsense")
            await shown(pilot, "/nonsense", without=["An answer is being written"])
        await ask(pilot, "/edit")
        await shown(pilot, "An answer is being written")
        press(pilot, "escape")
        await until(pilot, lambda: not screen_of(pilot).session.busy)
        await pilot.pause(0.2)
        assert screen_of(pilot).query_one(StatusLine).hint == "", "it is true no longer"
        assert len(contents(pilot)) == 2


async def test_compact_leads_to_what_makes_room() -> None:
    """Elsewhere it summarises; here nothing happens before the person has chosen."""
    async with chat_app(Script(answer="ok")).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        for text in ("one", "two"):
            await answered(pilot, text)
        await ask(pilot, "/compact")
        await shown(pilot, "Make room", "/trim", "/density")
        press(pilot, "enter")
        await shown(pilot, "not sent to the model any more")
        assert not screen_of(pilot).has_class("-compact")


async def test_an_answer_without_a_word_says_so_and_gives_the_question_back() -> None:
    async with chat_app(Script(answer=" ")).run_test(size=(80, 40)) as pilot:
        await ready(pilot)
        await ask(pilot, "what is ebb?")
        await shown(pilot, "The model said nothing.")
        await written(pilot, "what is ebb?")
        assert contents(pilot) == []
