"""The terminal's window is closed while the panel draws: the program ends, and its engine with it."""

import os
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from tests.helpers import fake_ebbtide
from tests.helpers.fake_engine import Script
from tests.helpers.waiting import wait_for_end, wait_until

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

import pty

F2 = b"\x1bOQ"


def start(script: Script, model: str) -> tuple[int, int]:
    """The program with a controlling terminal: (process id, our end of the terminal)."""
    text = msgspec.json.encode(script).decode()
    command = [sys.executable, fake_ebbtide.__file__, text, model]
    root = str(Path(fake_ebbtide.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, root]), "TERM": "xterm-256color"}
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, command, environment)
    return pid, terminal


def read_until(terminal: int, word: bytes) -> None:
    seen = b""

    def found() -> bool:
        nonlocal seen
        seen += os.read(terminal, 65536)
        return word in seen

    wait_until(found, f"{word!r} on the terminal")


@pytest.mark.parametrize("presses", [0, 2], ids=["chat", "panel"])
def test_the_program_ends_with_its_terminal(model: str, presses: int) -> None:
    pid, terminal = start(Script(answer="word " * 5000, token_delay_s=0.01), model)
    read_until(terminal, b"ready")
    os.write(terminal, b"go\r")
    read_until(terminal, b"word")
    for _ in range(presses):
        os.write(terminal, F2)
    if presses:
        read_until(terminal, b"F2 closes")
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert len(family) >= 2
    os.close(terminal)
    wait_for_end(family[1:])
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 143
