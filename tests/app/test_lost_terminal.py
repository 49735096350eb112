"""The terminal's window is closed, whatever is drawn: the program ends, and its engine with it.

Of its session's leader or not: only the leader is told by a signal.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import msgspec
import psutil
import pytest

from ebbtide.app.paths import find_paths
from ebbtide.engine.endpoint import Endpoint
from ebbtide.engine.hub import Hub
from tests.helpers import fake_ebbtide, panel_states
from tests.helpers.fake_engine import Script
from tests.helpers.waiting import wait_for_end, wait_until

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

import fcntl
import pty
import struct
import termios

Start = Callable[..., tuple[int, int]]
F2 = b"\x1bOQ"


def start_leader(script: Script, *arguments: str) -> tuple[int, int]:
    """The program with a controlling terminal: (process id, our end of the terminal)."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, command(script, *arguments), environment())
    give_size(terminal)
    return pid, terminal


def start_guest(script: Script, *arguments: str) -> tuple[int, int]:
    """The same on a terminal that controls no session: a hang-up is told to nobody."""
    terminal, theirs = pty.openpty()
    give_size(terminal)
    process = subprocess.Popen(
        command(script, *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(),
        start_new_session=True,
    )
    os.close(theirs)
    return process.pid, terminal


def give_size(terminal: int) -> None:
    """30 rows of 100 columns: a first frame wants some room."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))


def command(script: Script, *arguments: str) -> list[str]:
    return [sys.executable, fake_ebbtide.__file__, msgspec.json.encode(script).decode(), *arguments]


def environment() -> dict[str, str]:
    root = str(Path(fake_ebbtide.__file__).parents[2])
    path = os.pathsep.join([*sys.path, root])
    # Python itself writes at its end what is still in its buffers: as on a person's machine.
    mine = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return mine | {"PYTHONPATH": path, "TERM": "xterm-256color"}


def read_until(terminal: int, word: bytes) -> None:
    seen = b""

    def found() -> bool:
        nonlocal seen
        seen += os.read(terminal, 65536)
        return word in seen

    wait_until(found, f"{word!r} on the terminal")


def close_and_wait(pid: int, terminal: int) -> None:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    os.close(terminal)
    wait_for_end(family[1:])
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 143


START = pytest.mark.parametrize("start", [start_leader, start_guest], ids=["leader", "guest"])


@START
@pytest.mark.parametrize("presses", [0, 2], ids=["chat", "panel"])
def test_the_program_ends_with_its_terminal(model: str, presses: int, start: Start) -> None:
    pid, terminal = start(Script(answer="word " * 5000, token_delay_s=0.01), model)
    read_until(terminal, b"ready")
    os.write(terminal, b"go\r")
    read_until(terminal, b"word")
    for _ in range(presses):
        os.write(terminal, F2)
    if presses:
        read_until(terminal, b"F2 closes")
    assert psutil.Process(pid).children(recursive=True)
    close_and_wait(pid, terminal)


@START
def test_while_nothing_is_drawn(model: str, start: Start) -> None:
    pid, terminal = start(Script(), model)
    read_until(terminal, b"ready")
    close_and_wait(pid, terminal)


@START
def test_while_it_is_about_to_start(model: str, start: Start) -> None:
    pid, terminal = start(Script(), model)
    read_until(terminal, b"starting")
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    os.close(terminal)
    os.waitpid(pid, 0)
    wait_for_end(family[1:])


@START
def test_a_viewer_ends_with_its_terminal(start: Start, home: Path) -> None:
    hub = Hub(BytesIO())
    for event in (panel_states.loaded(), panel_states.residency(30, 8), panel_states.machine()):
        hub.emit(event)
    endpoint = Endpoint(find_paths().engines, os.getpid(), hub.frame, lambda watch: None)
    try:
        pid, terminal = start(Script(), "top")
        read_until(terminal, b"q quits")
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 143
    finally:
        endpoint.close()
