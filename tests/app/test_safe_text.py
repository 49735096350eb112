"""No control sequence gets through, and nothing else is changed."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.safe_text import format_bytes, safe, safe_line


@given(st.text(st.characters(codec=None)))
def test_only_newline_and_tab_remain_of_all_controls(text: str) -> None:
    clean = safe(text)
    assert all(char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs") for char in clean)
    clean.encode("utf-8")
    assert safe(clean) == clean


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_other_text_is_untouched(text: str) -> None:
    assert safe(text) == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\x1b]52;c;aGk=\x07", "]52;c;aGk="),  # OSC 52 writes to the clipboard
        ("\x1b[2Jgone", "[2Jgone"),
        ("\x9b31mred", "31mred"),  # the one-byte form of ESC [
        ("a\r\nb\x08\x7f", "a\nb"),
        ("\ud800", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_known_sequences(text: str, clean: str) -> None:
    assert safe(text) == clean


def test_a_line_is_one_line() -> None:
    assert safe_line(" a\n\tb\x1b ") == "a b"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (999_999, "1.0 MB"),
        (738_000_000, "738 MB"),
        (1_234_567_890, "1.2 GB"),
        (99_960_000, "100 MB"),
        (5 * 10**12, "5.0 TB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert format_bytes(count) == text
