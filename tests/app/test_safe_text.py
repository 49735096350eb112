"""No control sequence gets through, and nothing else is changed."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.safe_text import safe, safe_line, visible, whole_text


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


def test_what_is_no_utf8_becomes_the_replacement_character() -> None:
    argument = b"a\xffb \xc3\xa9".decode("utf-8", "surrogateescape")
    assert whole_text(argument) == "a\N{REPLACEMENT CHARACTER}b \N{LATIN SMALL LETTER E WITH ACUTE}"


@given(st.text(st.characters(codec=None)))
def test_the_screen_gets_no_mark_of_direction_and_no_odd_line_end(text: str) -> None:
    clean = visible(text)
    assert not set(clean) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")
    assert safe(clean) == clean


def test_a_mark_of_direction_is_shown_by_name_and_copied_as_it_is() -> None:
    assert visible("a\u202eb\u2028c") == "a⟨RLO⟩b\nc"
    assert safe("a\u202eb") == "a\u202eb"
    assert safe_line("evil\u202egpj.exe") == "evil⟨RLO⟩gpj.exe"
