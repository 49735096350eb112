"""The program on a real (pseudo) terminal: no content acts on it, and it is left as it was found."""

import os
import re
import shlex
import signal
import sys
import termios
import time
from pathlib import Path

import psutil
import pytest

from ebbtide.app.paths import find_paths
from ebbtide.app.store import open_store
from tests.helpers import broken_ebbtide
from tests.helpers.fake_engine import Script
from tests.helpers.waiting import wait_for_end, wait_until

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

from tests.helpers.terminal import RESTORED, Terminal, string_sequences

EVIL = (
    "\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[31mred\x9b2J\x9d0;owned\x9c\x1bPq\x1b\\ harmless end"
)
ENDLESS = Script(answer="word " * 5000, token_delay_s=0.02)
FORBIDDEN = (b"\x07", b"\xc2\x9b", b"\xc2\x9d", b"\x1b[2J", b"\x1b]0;", b"\x1b]52", b"\x1bP", b"\x9b2J")


def engines_of(terminal: Terminal) -> list[psutil.Process]:
    return list(psutil.Process(terminal.process.pid).children(recursive=True))


def check_wire(output: bytes) -> None:
    """Nothing of EVIL is a sequence; the one string sequence of the program sets the pointer's shape."""
    output = re.sub(rb"\x1b\]22;[a-z-]*\x07", b"", output)
    assert [text for text in FORBIDDEN if text in output] == []
    assert string_sequences(output) == []


def test_no_content_acts_on_the_terminal(tmp_path: Path) -> None:
    """Answer, notice, question, paste, chat title, and the model's file name."""
    model = tmp_path / f"{EVIL.replace('/', '')[:60]}.gguf"
    model.write_bytes(b"GGUF")
    answer = f"{EVIL}\n\n```{EVIL[:9]}\n{EVIL}\n```\n\n| {EVIL} |\n|---|\n| {EVIL} |\n\n- {EVIL}"
    with Terminal(Script(answer=answer, notices=[EVIL]), str(model)) as terminal:
        terminal.wait_for("ready", "harmless end")
        terminal.paste(f"question {EVIL}")
        terminal.wait_for("question")
        terminal.send("\r")
        terminal.wait_for("tok/s")
        terminal.send("/chats")
        terminal.wait_for("open an earlier chat")
        at = len(terminal.output)
        terminal.send("\r")
        terminal.wait_for("type to narrow", after=at)
        at = len(terminal.output)
        terminal.send("\x1b")
        terminal.wait_for("Ask about code", after=at)  # else the terminal would say Alt+Ctrl+D
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        check_wire(terminal.output)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "run"])
def test_no_content_acts_on_the_terminal_without_the_screen(model: str, plain: bool) -> None:
    arguments = ["--plain", model] if plain else ["run", model, "-p", EVIL]
    with Terminal(Script(answer=EVIL, notices=[EVIL]), *arguments) as terminal:
        if plain:
            terminal.wait_for("> ")
            terminal.send("question\n")
        terminal.wait_for("harmless end")
        if plain:
            terminal.send("/bye\n")
        assert terminal.wait_for_end() == 0
        assert [text for text in FORBIDDEN if text in terminal.output] == []


def test_plain_says_what_it_is_and_breaks_lines_between_words(model: str) -> None:
    script = Script(answer="some words that do not fit into one line of it")
    with Terminal(script, "--plain", model, columns=24) as terminal:
        terminal.wait_for("tiny answers. /help\r\n  shows", "/quit leaves", "> ")
        terminal.send("q\n")
        terminal.wait_for("some words that do not\r\nfit into one line of it\r\n")
        terminal.send("/quit\n")
        assert terminal.wait_for_end() == 0


def check_restored(terminal: Terminal) -> None:
    for sequence in RESTORED:
        assert sequence in terminal.output
    assert terminal.output.rfind(b"\x1b[?1049l") > terminal.output.rfind(b"\x1b[?1049h")
    assert terminal.is_as_before()


def test_the_terminal_is_whole_after_a_normal_end(model: str) -> None:
    with Terminal(Script(), model) as terminal:
        terminal.wait_for("ready")
        engines = engines_of(terminal)
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        check_restored(terminal)
        wait_for_end(engines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_whole_after_a_signal(number: int, model: str) -> None:
    with Terminal(ENDLESS, model) as terminal:
        terminal.wait_for("ready")
        terminal.send("go\r")
        terminal.wait_for("word")
        engines = engines_of(terminal)
        terminal.process.send_signal(number)
        assert terminal.wait_for_end() == 143
        check_restored(terminal)
        wait_for_end(engines)


def test_the_terminal_is_whole_after_an_exception(model: str) -> None:
    with Terminal(Script(), model, program=broken_ebbtide.__file__) as terminal:
        assert terminal.wait_for_end() == 1
        assert b"BrokenOnPurpose" in terminal.output
        check_restored(terminal)


def test_the_engines_death_leaves_the_screen_working(model: str) -> None:
    with Terminal(Script(), model) as terminal:
        terminal.wait_for("ready")
        os.kill(engines_of(terminal)[0].pid, signal.SIGKILL)
        terminal.wait_for("engine died", "SIGKILL")
        terminal.send("again\r")
        terminal.wait_for("You said: again")
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        check_restored(terminal)


def test_a_draft_and_half_an_answer_survive_sigkill(model: str) -> None:
    with Terminal(ENDLESS, model) as terminal:
        terminal.wait_for("ready")
        terminal.send("go\r")
        terminal.wait_for("word")
        terminal.send("half a thought")
        with open_store(find_paths().chats) as store:
            wait_until(lambda: bool(store.list_chats()), "the chat in the store")
            chat = store.list_chats()[0]
            wait_until(lambda: store.load_draft(chat.id) == "half a thought", "the draft in the store")
            wait_until(lambda: "word" in store.whole_tree(chat.id)[-1].content, "the answer in the store")
        engines = engines_of(terminal)
        terminal.process.kill()
        wait_for_end(engines)
    with Terminal(ENDLESS, model) as terminal:
        terminal.wait_for("ready", "Ctrl+O goes on with")
        terminal.send("\x0f")
        terminal.wait_for("word word", "half a thought", "cut off")


def test_queued_questions_survive_sigkill(model: str) -> None:
    with Terminal(ENDLESS, model) as terminal:
        terminal.wait_for("ready")
        terminal.send("go\r")
        terminal.wait_for("word")
        terminal.send("and then\r")
        terminal.wait_for("1. and then")
        terminal.send("at last\r")
        with open_store(find_paths().chats) as store:
            chat = store.list_chats()[0]
            wait_until(lambda: store.load_queue(chat.id) == ["and then", "at last"], "the queue in the store")
        engines = engines_of(terminal)
        terminal.process.kill()
        wait_for_end(engines)
    with Terminal(Script(), model) as terminal:
        terminal.wait_for("ready", "Ctrl+O goes on with")
        terminal.send("\x0f")
        terminal.wait_for("1. and then", "2. at last", "held")
        terminal.send("\r")
        terminal.wait_for("You said: and then", "You said: at last")
        with open_store(find_paths().chats) as store:
            wait_until(lambda: store.load_queue(chat.id) == [], "the end of the queue")


def test_stopped_and_continued_it_reads_keys_once_and_draws_all_again(tmp_path: Path) -> None:
    """SIGSTOP gives no notice; a shell that takes the terminal meanwhile sets it its own way."""
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF")
    with Terminal(Script(answer="the answer"), str(model)) as terminal:
        terminal.wait_for("ready")
        process = psutil.Process(terminal.process.pid)
        raw, threads = termios.tcgetattr(terminal.theirs), process.num_threads()
        for _ in range(3):
            process.suspend()
            wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "a stopped process")
            termios.tcsetattr(terminal.theirs, termios.TCSANOW, terminal.before)
            at = len(terminal.output)
            process.resume()
            terminal.wait_for("Ask about code"[1:], "\x1b[?1049h", after=at)
            assert termios.tcgetattr(terminal.theirs) == raw
        assert process.num_threads() <= threads
        for number in range(20):
            at, words = len(terminal.output), f"words {number} of a question"
            terminal.send(words + "\r")
            terminal.wait_for(words, "the answer", after=at)


def test_continued_while_it_writes_it_goes_on(tmp_path: Path) -> None:
    """A signal comes at any moment, also where what it needs is held by what it has interrupted."""
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF")
    with Terminal(Script(answer="the answer"), str(model)) as terminal:
        terminal.wait_for("ready")
        for number in range(3):
            for _ in range(300):
                terminal.process.send_signal(signal.SIGCONT)
                time.sleep(0.001)
            at = len(terminal.output)
            terminal.send(f"question {number}\r")
            terminal.wait_for(f"question {number}", "the answer", after=at)


def test_suspended_from_outside_while_it_writes_it_can_be_continued(tmp_path: Path) -> None:
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF")
    with Terminal(ENDLESS, str(model)) as terminal:
        terminal.wait_for("ready")
        terminal.send("a question\r")
        process = psutil.Process(terminal.process.pid)
        for _ in range(20):
            terminal.wait_for("word", after=len(terminal.output))
            process.send_signal(signal.SIGTSTP)
            wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "a stopped process")
            at = len(terminal.output)
            process.resume()
            terminal.wait_for("\x1b[?1049h", after=at)


TAKE_TERMINAL = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal that of the session, as a terminal window does before it starts a shell."""


def test_ctrl_z_goes_to_the_shell_and_fg_comes_back(model: str) -> None:
    with_shell = Terminal(Script(answer="the answer"), model)
    command = shlex.join(with_shell.command)
    with_shell.command = [sys.executable, "-c", TAKE_TERMINAL, "bash", "--norc", "--noprofile", "-i"]
    with with_shell as terminal:
        terminal.send(f"{command}\n")
        terminal.wait_for("ready")
        for number in range(2):
            at = len(terminal.output)
            terminal.send("\x1a")
            terminal.wait_for("\x1b[?1049l", "Stopped", after=at)
            at = len(terminal.output)
            terminal.send(f"echo in the shell $((40 + {number}))\n")
            terminal.wait_for(f"in the shell {40 + number}", after=at)
            at = len(terminal.output)
            terminal.send("fg\n")
            terminal.wait_for("\x1b[?1049h", "Ask about code"[1:], after=at)
            at = len(terminal.output)
            terminal.send(f"question {number}\r")
            terminal.wait_for(f"question {number}", "the answer", after=at)


def test_ctrl_z_stops_nothing_where_no_shell_could_go_on(model: str) -> None:
    with Terminal(Script(answer="the answer"), model) as terminal:
        terminal.wait_for("ready")
        terminal.send("\x1a")
        terminal.wait_for("no shell to go back to")
        terminal.send("a question\r")
        terminal.wait_for("the answer")


CHATTY = """
import runpy, sys
from ebbtide.app.screens.chat import ChatScreen

start = ChatScreen._start

async def chatty(screen):
    print("a library says this", file=sys.stderr)
    await start(screen)

ChatScreen._start = chatty
runpy.run_module("tests.helpers.fake_ebbtide", run_name="__main__")
"""


def test_the_screen_is_drawn_on_the_terminal_where_errors_go_to_a_file(model: str, tmp_path: Path) -> None:
    errors, program = tmp_path / "errors", tmp_path / "chatty.py"
    program.write_text(CHATTY)
    with Terminal(Script(answer="the answer"), model, errors=errors, program=str(program)) as terminal:
        terminal.wait_for("sk about code", "ready")
        terminal.send("a question\r")
        terminal.wait_for("the answer")
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        assert terminal.is_as_before() and all(end in terminal.output for end in RESTORED)
        assert b"a library says this" not in terminal.output
    assert errors.read_text() == "a library says this\n"


def test_a_dumb_terminal_gets_the_chat_line_by_line(model: str) -> None:
    terminal = Terminal(Script(answer="forty-two", progress_steps=3), model)
    terminal.command = ["env", "TERM=dumb", *terminal.command]
    with terminal:
        terminal.wait_for("line by line", "> ")
        terminal.send("what?\n")
        terminal.wait_for("forty-two")
        terminal.send("/bye\n")
        assert terminal.wait_for_end() == 0
        assert b"\x1b" not in terminal.output


def test_a_command_and_a_question_in_one_burst_stay_apart(tmp_path: Path) -> None:
    """While completions are shown, Enter is theirs first."""
    model = tmp_path / "tiny.gguf"
    model.write_bytes(b"GGUF")
    with Terminal(Script(answer="the answer"), str(model)) as terminal:
        terminal.wait_for("ready")
        terminal.send("/theme")
        terminal.wait_for("change the colours")
        for number, theme in enumerate(["light", "dark", "light", "dark"]):
            at = len(terminal.output)
            terminal.send(f"{'' if number == 0 else '/theme'} {theme}\rquestion {number}\r")
            terminal.wait_for(f"question {number}", "the answer", after=at)
        assert b"There is no theme" not in terminal.output
