"""The prompt in its screen: queue, pastes, completions, files, editor, history, palette."""

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from ebbtide.app.chat_app import ChatApp
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.engine_events import EngineEvent
from ebbtide.app.screens.picker import Picker
from ebbtide.app.screens.text_page import TextPage
from ebbtide.app.token_rate import usual_tokens
from ebbtide.app.widgets.completions import Completions
from ebbtide.app.widgets.fold import Fold
from ebbtide.engine.messages import Counted
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
    until,
    written,
)
from tests.helpers.fake_engine import Script

SLOW = Script(answer="word " * 5000, token_delay_s=0.02)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that `@` means."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def contents(pilot: Pilot[None]) -> list[str]:
    return [turn.content for turn in screen_of(pilot).session.turns]


def screen_of_chat(pilot: Pilot[None]) -> ChatScreen:
    """Also below a list."""
    return next(screen for screen in pilot.app.screen_stack if isinstance(screen, ChatScreen))


async def typed(pilot: Pilot[None], text: str) -> None:
    press(pilot, *text)
    await until(pilot, lambda: prompt_of(pilot).text.endswith(text))


async def completing(pilot: Pilot[None], *words: str) -> None:
    """Until the list above the prompt is there and says so."""
    await until(pilot, lambda: prompt_of(pilot).completing)
    await shown(pilot, *words)


async def answering(pilot: Pilot[None]) -> None:
    await ready(pilot)
    await ask(pilot, "go")
    await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)


# --- the queue


async def test_questions_wait_in_order_and_are_sent_one_by_one() -> None:
    async with chat_app(Script(token_delay_s=0.05)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "a a a a a a a a a a a a")
        for text in ("second", "third"):
            await until(pilot, lambda: screen_of(pilot).session.busy)
            await ask(pilot, text)
            await written(pilot, "")
        await until(pilot, lambda: len(contents(pilot)) == 6 and not screen_of(pilot).session.busy)
        assert contents(pilot)[2::2] == ["second", "third"]


async def test_a_queued_question_is_seen_and_taken_back() -> None:
    async with chat_app(SLOW).run_test() as pilot:
        await answering(pilot)
        await ask(pilot, "second")
        await shown(pilot, "1. second", "Up takes the last back")
        press(pilot, "up")
        await written(pilot, "second")
        assert screen_of(pilot).questions.queue.questions == [] and contents(pilot) == ["go"]


async def test_of_a_queued_question_its_words_are_seen_and_not_its_files(folder: Path) -> None:
    (folder / "tide.py").write_text("ebb = 1\n")
    async with chat_app(SLOW).run_test() as pilot:
        await answering(pilot)
        await ask(pilot, "explain @tide.py please")
        await shown(pilot, "1. explain @tide.py please", without=["ebb = 1"])
        press(pilot, "up")
        await written(pilot, "explain @tide.py please")


async def test_after_a_stop_the_queue_is_held_until_enter() -> None:
    async with chat_app(SLOW).run_test() as pilot:
        await answering(pilot)
        await ask(pilot, "second")
        await shown(pilot, "1. second")
        press(pilot, "escape")
        await shown(pilot, "held: Enter sends the next", "Stopped.")
        assert len(contents(pilot)) == 2
        press(pilot, "enter")
        await until(pilot, lambda: contents(pilot)[2:] == ["second"])


async def test_a_shell_command_is_not_asked_and_stays_in_the_prompt() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "!ls -l")
        await shown(pilot, "runs no shell commands")
        await written(pilot, "!ls -l")
        assert contents(pilot) == []


async def test_a_file_that_is_not_there_is_told_before_the_question_is_sent() -> None:
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "fix @typo.py")
        await shown(pilot, "@typo.py is no file here")
        press(pilot, "enter")
        await until(pilot, lambda: contents(pilot) == ["fix @typo.py", "ok"])
        await shown(pilot, "ok", without=["is no file here"])


# --- pastes


async def test_a_large_paste_is_a_chip_and_is_sent_whole() -> None:
    text = "".join(f"line {number}\n" for number in range(1204))
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).post_message(Paste(text))
        await written(pilot, "[pasted 1,204 lines]")
        await shown(pilot, "[pasted 1,204 lines]", f" {len(text):,} tokens", "too long")
        assert contents(pilot) == []
        press(pilot, "enter")
        await until(pilot, lambda: contents(pilot) == [text, "ok"])
        await shown(pilot, "ok")


async def test_a_megabyte_is_pasted_and_nothing_is_sent() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).post_message(Paste("x" * 99 + "\n" + "rm -rf /\r\n" * 100_000))
        await written(pilot, "[pasted 100,001 lines]")
        assert len(prompt_of(pilot).whole_text) == 100 + 9 * 100_000 and contents(pilot) == []


async def test_backspace_removes_a_chip_whole() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).post_message(Paste("a" * 5000))
        await written(pilot, "[pasted 5,000 characters]")
        press(pilot, "backspace")
        await written(pilot, "")


async def test_triple_quotes_take_several_lines() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, '"', '"', '"', "enter", "a", "enter")
        await written(pilot, '"""\na\n')
        press(pilot, "b", '"', '"', '"', "enter")
        await until(pilot, lambda: contents(pilot)[:1] == ["a\nb"])


# --- completions


async def test_a_command_is_completed() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "/", "r", "e", "n")
        await completing(pilot, "/rename", "give this chat a title")
        press(pilot, "tab")
        await written(pilot, "/rename ")


async def test_enter_on_a_unique_beginning_runs_the_command() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "/", "s", "t", "a")
        await completing(pilot, "/stats")
        press(pilot, "enter")
        await shown(pilot, "Memory: at most")


async def test_arrows_choose_and_escape_closes_the_list() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        press(pilot, "/", "r", "e")
        await completing(pilot, "/regenerate")
        press(pilot, "down", "tab")
        await written(pilot, "/regenerate")
        press(pilot, "backspace", "escape")
        await until(pilot, lambda: not prompt_of(pilot).completing)
        assert prompt_of(pilot).text == "/regenerat"


async def test_arguments_are_completed() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "/export ")
        await completing(pilot, "json")
        press(pilot, "down", "down", "tab")
        await written(pilot, "/export json")


async def test_a_file_is_completed_costs_are_shown_and_it_is_sent(folder: Path) -> None:
    (folder / ".gitignore").write_text("secret*\n")
    (folder / "notes.md").write_text("n" * 4000)
    (folder / "secret.md").write_text("s")
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "see @")
        await completing(pilot, "@notes.md", "4,000 tokens")
        rows = [row.text for row in screen_of(pilot).query_one(Completions).rows]
        assert not any("secret" in row for row in rows)
        await typed(pilot, "no")
        press(pilot, "tab")
        await written(pilot, "see @notes.md ")
        await until(pilot, lambda: "tokens" in str(prompt_of(pilot).border_subtitle))
        press(pilot, "enter")
        await until(pilot, lambda: len(contents(pilot)) == 2)
        assert "File notes.md:\n```md\n" + "n" * 4000 in contents(pilot)[0]


@pytest.mark.parametrize("text", ["what is @README.md", "what is @cache", "@docs/no", "what is @READ"])
async def test_enter_sends_a_question_as_it_is_written_whatever_is_offered(folder: Path, text: str) -> None:
    for name in ("README.md", "deep/er/README.md", "layer_cache.py", "docs/notes.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, text)
        await until(pilot, lambda: prompt_of(pilot).completing)
        press(pilot, "enter")
        await until(pilot, lambda: len(contents(pilot)) == 2)
        whole = text.endswith("README.md")
        assert contents(pilot)[0].partition("\n")[0] == text
        assert contents(pilot)[0].count("text of ") == whole
        assert not whole or "text of README.md" in contents(pilot)[0]


async def test_a_file_that_is_moved_to_is_taken_by_enter_and_tab_takes_the_first(folder: Path) -> None:
    for name in ("a.md", "b.md"):
        (folder / name).write_text("text")
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "see @")
        await completing(pilot, "@b.md")
        press(pilot, "down", "down", "enter")
        await written(pilot, "see @b.md ")
        await typed(pilot, "@")
        await completing(pilot, "@a.md")
        press(pilot, "tab")
        await written(pilot, "see @b.md @a.md ")
        await typed(pilot, "@")
        await completing(pilot, "@b.md")
        press(pilot, "up", "enter")
        await written(pilot, "see @b.md @a.md @b.md ")


async def test_a_name_that_is_no_file_is_told_when_it_is_sent(folder: Path) -> None:
    (folder / "nots.mdx").write_text("text")
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "see @nots.md")
        await completing(pilot, "@nots.mdx")
        press(pilot, "enter")
        await shown(pilot, "@nots.md is no file here")
        await until(pilot, lambda: contents(pilot) == ["see @nots.md", "ok"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/find", "Search all chats"),
        ("/export", "This chat has not begun"),
        ("/system no", "The system prompt holds"),
        ("/theme ", "Themes"),
    ],
)
async def test_a_command_that_is_written_whole_is_run_as_it_is(text: str, said: str) -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, text)
        await until(pilot, lambda: prompt_of(pilot).completing)
        press(pilot, "enter")
        await shown(pilot, said)
        assert screen_of_chat(pilot).session.system == ("no" if "system" in text else "")


async def test_until_the_engine_has_counted_costs_are_estimates_that_know_digits(folder: Path) -> None:
    numbers = "".join(f"{n * 7919} {n}\n" for n in range(400))
    (folder / "numbers.txt").write_text(numbers)
    async with chat_app(Script(counts=False)).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "see @")
        await completing(pilot, "@numbers.txt", f"~{len(numbers):,} tokens")
        press(pilot, "escape")
        prompt_of(pilot).post_message(Paste(numbers))
        await until(pilot, lambda: "[pasted 400 lines]" in prompt_of(pilot).text)
        tokens = usual_tokens("see @") + usual_tokens(numbers)
        await shown(pilot, f"~{tokens:,} tokens: more than the whole context (4,096)", "too long")


async def test_the_engine_is_not_asked_about_every_key(tmp_path: Path) -> None:
    record = tmp_path / "commands"
    async with chat_app(Script(record=str(record))).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "what does this mean?")
        await answered(pilot, "what does it mean?")
    assert b'"generate"' in record.read_bytes() and b'"count"' not in record.read_bytes()


async def test_binary_files_are_not_offered(folder: Path) -> None:
    for name, content in {"tool.md": b"x", "tool": b"\x7fELF\0", "tool.png": b"x", "tool.gguf": b"x"}.items():
        (folder / name).write_bytes(content)
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "see @tool")
        await completing(pilot, "@tool.md")
        assert [row.text for row in screen_of(pilot).query_one(Completions).rows] == ["@tool.md "]


async def test_a_count_that_arrives_leaves_the_chosen_row(folder: Path) -> None:
    for name in ("one.md", "two.md"):
        (folder / name).write_text("text")
    async with chat_app(Script(counts=False)).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "see @")
        await completing(pilot, "@two.md", "~1 token")
        press(pilot, "down", "down")
        completions = screen_of(pilot).query_one(Completions)
        await until(pilot, lambda: completions.at == 1)
        screen = screen_of(pilot)
        request_id = screen.session.counts._asked[0]
        screen.post_message(EngineEvent(Counted(request_id, [77]), screen.session.model.life))
        await shown(pilot, "77 tokens")
        assert completions.at == 1


async def test_a_file_that_cannot_be_sent_is_named_and_the_question_stays(folder: Path) -> None:
    (folder / "image.png").write_bytes(b"\x89PNG\0")
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "what is @image.png")
        await shown(pilot, "@image.png is binary")
        await written(pilot, "what is @image.png")
        assert contents(pilot) == []


# --- other keys


async def test_the_palette_runs_commands_of_the_registry() -> None:
    async with chat_app(Script()).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        press(pilot, "ctrl+p")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "/new", "/budget")
        press(pilot, *"figures of the")
        await shown(pilot, "/stats", without=["/budget"])
        press(pilot, "enter")
        await shown(pilot, "Memory: at most")


async def test_f1_shows_the_help_and_escape_closes_it() -> None:
    async with chat_app(Script()).run_test(size=(100, 60)) as pilot:
        await ready(pilot)
        press(pilot, "f1")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextPage))
        await shown(pilot, "Keys", "/regenerate", "Ctrl+G")
        press(pilot, "escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


async def test_arrows_go_through_the_history_past_what_could_be_completed() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).load_history(["oldest", "/new", "/ne", "newest"])
        for text in ("newest", "/ne", "/new", "oldest"):
            press(pilot, "up")
            await written(pilot, text)
            await settled(pilot)
        for text in ("/new", "/ne", "newest"):
            press(pilot, "down")
            await written(pilot, text)
            await settled(pilot)
        press(pilot, "up")
        await written(pilot, "/ne")
        await typed(pilot, "w")
        await completing(pilot, "/new")


async def test_history_is_searched() -> None:
    async with chat_app(Script(answer="ok")).run_test() as pilot:
        await ready(pilot)
        for text in ("parse dates", "sort a list", "parse times"):
            await answered(pilot, text)
        press(pilot, "ctrl+r")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        press(pilot, *"dates")
        picker = pilot.app.screen
        assert isinstance(picker, Picker)
        await until(pilot, lambda: [choice.value for choice in picker.choices] == ["parse dates"])
        press(pilot, "enter")
        await until(pilot, lambda: pilot.app.screen is not picker)
        await written(pilot, "parse dates")


async def test_the_editor_gets_the_draft_and_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib\np = pathlib.Path(sys.argv[1])\np.write_text(p.read_text() + ' edited\\n')\n"
    )
    monkeypatch.setenv("VISUAL", f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}")
    monkeypatch.setattr(ChatApp, "suspend", _no_terminal)
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "draft")
        press(pilot, "ctrl+g")
        await written(pilot, "draft edited")


@contextlib.contextmanager
def _no_terminal(app: ChatApp) -> Iterator[None]:
    """There is no terminal to hand over in a test."""
    yield


async def test_a_missing_editor_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "no-such-editor")
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "draft")
        press(pilot, "ctrl+g")
        await shown(pilot, "no-such-editor, which was not found")
        assert prompt_of(pilot).text == "draft"


def rows_at(pilot: Pilot[None], words: str) -> list[int]:
    """Rows above the lower end of the screen in which `words` stand."""
    rows = drawn(pilot.app).split("\n")
    return [len(rows) - number for number, row in enumerate(rows) if words in row]


@pytest.mark.parametrize("width", [80, 120])
async def test_a_remark_in_a_short_chat_is_seen_near_the_prompt(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    async with chat_app(Script(answer="one\n\n" * 20)).run_test(size=(width, 40)) as pilot:
        await ready(pilot)
        press(pilot, "ctrl+g")
        await until(pilot, lambda: len(rows_at(pilot, "No editor is set")) == 2)
        far, near = rows_at(pilot, "No editor is set")
        assert far > 30 and near <= 2
        await shown(pilot, "No editor is set · Set $EDITOR")
        await answered(pilot, "fill the screen")
        await answered(pilot, "fill the screen")
        press(pilot, "ctrl+g")
        await until(pilot, lambda: bool(rows_at(pilot, "No editor is set")))
        await settled(pilot)
        assert len([row for row in rows_at(pilot, "No editor is set") if row > 2]) == 1


async def test_ctrl_z_undoes_and_does_not_run_over_into_a_suspension() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        await typed(pilot, "draft")
        press(pilot, *["ctrl+z"] * 30)
        await written(pilot, "")
        await settled(pilot)
        assert "no shell" not in drawn(pilot.app)


async def test_a_file_in_a_question_is_one_line_until_it_is_unfolded(folder: Path) -> None:
    (folder / "notes.md").write_text("secret words\n" * 30)
    async with chat_app(Script(answer="ok")).run_test(size=(100, 60)) as pilot:
        await ready(pilot)
        await answered(pilot, "sum up @notes.md please")
        assert "secret words" in contents(pilot)[0]
        await shown(pilot, "sum up @notes.md please", "▸ notes.md, 30 lines", without=["secret words"])
        await pilot.click(Fold)
        await shown(pilot, "secret words", "▾ fold", without=["▸ notes.md"])
        await pilot.click(Fold)
        await shown(pilot, "▸ notes.md, 30 lines", without=["secret words"])
        press(pilot, "ctrl+up", "ctrl+up")
        await shown(pilot, "turn 1/2")
        press(pilot, "enter")
        await shown(pilot, "secret words", "▾ fold")
