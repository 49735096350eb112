"""What is typed reaches the program, and whoever reads it sleeps until then."""

import os
import select
import sys
import threading
from collections.abc import Iterator
from queue import Queue

import pytest
from textual import events
from textual.message import Message

from ebbtide.app.paste_parser import PasteParser
from tests.helpers.waiting import PATIENCE_S, wait_until

if sys.platform == "win32":
    pytest.skip("no pseudo-terminals", allow_module_level=True)

import pty
import tty

from ebbtide.app.input_thread import Alarm, read_input


class Reader:
    """The thread, on a terminal of its own: `keyboard` is the other end of that."""

    def __init__(self) -> None:
        self.keyboard, self.terminal = pty.openpty()
        tty.setraw(self.terminal)
        self.over, self.messages = Alarm(), Queue[Message]()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        read_input(self.terminal, PasteParser(), self.over, self.messages.put)

    def type(self, text: str) -> None:
        os.write(self.keyboard, text.encode())

    def next(self) -> Message:
        return self.messages.get(timeout=PATIENCE_S)

    def end(self) -> None:
        self.over.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@pytest.fixture
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.end()
    os.close(reader.keyboard)
    os.close(reader.terminal)


def key_of(message: Message) -> str:
    assert isinstance(message, events.Key)
    return message.key


def test_keys_and_pastes_arrive(reader: Reader) -> None:
    reader.type("a\x1b[A")
    assert [key_of(reader.next()) for _ in range(2)] == ["a", "up"]
    reader.type("\x1b[200~one\ntwo\x1b[201~")
    paste = reader.next()
    assert isinstance(paste, events.Paste) and paste.text == "one\ntwo"


def test_an_escape_alone_is_a_key_though_nothing_follows(reader: Reader) -> None:
    reader.type("\x1b")
    assert key_of(reader.next()) == "escape"


def test_letters_cut_in_the_middle_arrive_whole(reader: Reader) -> None:
    for _ in range(2):
        for byte in "é".encode():
            os.write(reader.keyboard, bytes([byte]))
            wait_until(lambda: not select.select([reader.terminal], [], [], 0)[0], "the byte is read")
        message = reader.next()
        assert isinstance(message, events.Key) and message.character == "é"


def test_bytes_that_are_no_letter_do_not_end_the_reading(reader: Reader) -> None:
    os.write(reader.keyboard, b"\xff\xc3a")
    *others, last = [reader.next() for _ in range(3)]
    assert all(isinstance(other, events.Key) and other.character == "\ufffd" for other in others)
    assert key_of(last) == "a"


def test_while_nothing_is_typed_it_waits_for_as_long_as_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of the wait are there: what is typed, and the end of the program."""
    waits = Queue[float | None]()
    usual = select.select

    def noted(
        readers: list[int], writers: list[int], faults: list[int], timeout_s: float | None
    ) -> tuple[list[int], list[int], list[int]]:
        waits.put(timeout_s)
        ready, _, _ = usual(readers, writers, faults, timeout_s)
        return ready, [], []

    monkeypatch.setattr(select, "select", noted)
    reader = Reader()
    assert waits.get(timeout=PATIENCE_S) is None
    reader.type("a")
    assert key_of(reader.next()) == "a"
    assert waits.get(timeout=PATIENCE_S) is None
    reader.end()
    os.close(reader.keyboard)
    os.close(reader.terminal)


def test_a_terminal_that_has_hung_up_is_not_read_for_ever() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    read_input(reader, PasteParser(), Alarm(), lambda message: None)
    os.close(reader)


def test_an_alarm_can_be_set_and_cleared_again() -> None:
    alarm = Alarm()
    for _ in range(3):
        assert not select.select([alarm], [], [], 0)[0]
        alarm.set()
        alarm.set()
        assert alarm.is_set() and select.select([alarm], [], [], 0)[0]
        alarm.clear()
        alarm.clear()
