"""Copies go the best way, and "sent to the terminal" is never called "copied"."""

import sys
from collections.abc import Sequence

import pytest

from ebbtide.app import clipboard
from ebbtide.app.clipboard import amount_of, copy, run_tool
from tests.helpers.waiting import PATIENCE_S

TEXT = "line one\nline two\n"


class Machine:
    """Remembers what was run and what the terminal was sent."""

    def __init__(self, *working: str) -> None:
        self.working = working
        self.ran: list[tuple[list[str], bytes]] = []
        self.sent: list[str] = []

    def run(self, command: Sequence[str], data: bytes) -> bool:
        self.ran.append((list(command), data))
        return command[0] in self.working

    def which(self, name: str) -> str | None:
        return name if name in self.working else None

    def copy(self, text: str = TEXT, platform: str = "linux", **environment: str) -> str:
        return copy(
            text,
            self.sent.append,
            run=self.run,
            which=self.which,
            environment=environment,
            platform=platform,
        )


def test_a_desktop_confirms() -> None:
    machine = Machine("wl-copy")
    assert machine.copy(WAYLAND_DISPLAY="wayland-0") == "Copied 2 lines."
    assert machine.ran == [(["wl-copy"], TEXT.encode())] and machine.sent == []


@pytest.mark.parametrize(
    ("platform", "variable", "tool"), [("darwin", "X", "pbcopy"), ("linux", "DISPLAY", "xsel")]
)
def test_other_desktops(platform: str, variable: str, tool: str) -> None:
    machine = Machine(tool)
    assert machine.copy(platform=platform, **{variable: ":0"}).startswith("Copied")
    assert machine.ran[0][0][0] == tool


def test_tmux_has_its_own_way() -> None:
    machine = Machine("tmux", "wl-copy")
    said = machine.copy(TMUX="/tmp/tmux,1,0", WAYLAND_DISPLAY="wayland-0", SSH_TTY="/dev/pts/0")
    assert "tmux's buffer" in said and "Copied" not in said
    assert machine.ran == [(["tmux", "load-buffer", "-w", "-"], TEXT.encode())] and machine.sent == []


def test_over_ssh_only_the_terminal_can_copy_and_it_confirms_nothing() -> None:
    machine = Machine("wl-copy", "xclip")
    said = machine.copy(SSH_CONNECTION="1 2 3 4", DISPLAY=":10")
    assert "Copied" not in said and "does not say" in said
    assert machine.sent == [TEXT] and machine.ran == []


def test_a_tmux_that_fails_is_no_copy() -> None:
    machine = Machine()
    said = machine.copy(TMUX="/tmp/tmux,1,0", SSH_TTY="/dev/pts/0")
    assert machine.sent == [TEXT] and "Copied" not in said and "tmux's buffer" not in said


def test_a_large_text_may_be_refused() -> None:
    assert "refuse that much" in Machine().copy("x" * 100_000)


def test_control_characters_stay_behind() -> None:
    machine = Machine()
    machine.copy("a\x1b]0;title\x07b\x9b2J\tc\n")
    assert machine.sent == ["a]0;titleb2J\tc\n"]


def test_tools_that_fail_hang_or_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipboard, "TOOL_WAIT_S", PATIENCE_S)
    assert run_tool([sys.executable, "-c", "import sys; sys.exit(sys.stdin.read() != 'x')"], b"x")
    assert not run_tool([sys.executable, "-c", "raise SystemExit(3)"], b"x")
    assert not run_tool(["no-such-program-at-all"], b"x")
    monkeypatch.setattr(clipboard, "TOOL_WAIT_S", 0.1)
    assert not run_tool([sys.executable, "-c", "import time; time.sleep(600)"], b"x")


@pytest.mark.parametrize(
    ("text", "amount"),
    [("a", "1 character"), ("", "0 characters"), ("a\nb", "2 lines"), ("\n" * 1204, "1,204 lines")],
)
def test_amounts(text: str, amount: str) -> None:
    assert amount_of(text) == amount
