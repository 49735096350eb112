"""What the terminal sends gives the same messages as with Textual's own parser, wherever it is cut."""

import sys
import time
from itertools import pairwise

import pytest

if sys.platform == "win32":
    pytest.skip("Windows has no such terminal", allow_module_level=True)

from hypothesis import given, settings
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from ebbtide.app.paste_parser import MORE_FOLLOWS, PasteParser

KEYS = [
    "a",
    "ä",
    "日",
    "\r",
    "\t",
    "\x03",
    "\x1b[A",
    "\x1b[1;5C",
    "\x1bOQ",
    "\x1b[<0;3;4M",
    "\x1b[I",
    "\x1b[O",
]
TEXT = st.text("ab \n\t日[0~2\x00", max_size=12)
PASTE = TEXT.map(lambda text: f"\x1b[200~{text}\x1b[201~")
INPUT = st.lists(st.one_of(st.sampled_from(KEYS), PASTE), max_size=8).map("".join)


def told(parser: XTermParser, pieces: list[str]) -> list[str]:
    """The messages, as text."""
    return [_told(message) for piece in pieces if piece for message in parser.feed(piece)]


def _told(message: Message) -> str:
    if isinstance(message, events.Key):
        return f"key {message.key}"
    return f"paste {message.text!r}" if isinstance(message, events.Paste) else repr(message)


@settings(max_examples=300)
@given(INPUT, st.lists(st.integers(0, 120), max_size=6))
def test_as_textual_reads_it(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(edges)]
    if any(piece.endswith("\x1b") for piece in pieces):
        pieces = [text]  # an Escape at the end is a key, or not, by time
    assert told(PasteParser(), pieces) == told(XTermParser(), [text])


def test_the_beginning_of_a_paste_that_never_comes_is_what_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = PasteParser()
    assert told(parser, ["\x1b[2"]) == [] and list(parser.tick()) == []
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1)
    list(parser.tick())
    assert told(parser, ["~"]) == ["key insert"]


def test_a_paste_cut_at_its_escape_is_still_one_paste() -> None:
    text = "x" * MORE_FOLLOWS
    messages = told(PasteParser(), [text + "\x1b", "[200~one", "two\x1b", "[201~"])
    assert messages[-1] == "paste 'onetwo'" and len(messages) == MORE_FOLLOWS + 1


def test_alt_with_enter_is_a_key_of_its_own() -> None:
    messages = list(PasteParser().feed("a\x1b\r\x1b\rb\r"))
    keys = [message.key for message in messages if isinstance(message, events.Key)]
    assert keys == ["a", "alt+enter", "alt+enter", "b", "enter"]
