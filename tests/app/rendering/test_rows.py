"""Wrapping, and the text that a selection of rows stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content
from textual.geometry import Offset

from ebbtide.app.rendering.rows import BLANK, Row, beside, folded, text_between, wrapped

WORDS = st.lists(st.text("abcß日本🎉", min_size=1, max_size=12), min_size=1, max_size=12)


def plain(rows: list[Row]) -> list[str]:
    return [row.content.plain for row in rows]


@given(WORDS, st.integers(2, 40))
def test_wrapped_rows_fit_and_are_one_text(words: list[str], width: int) -> None:
    rows = wrapped(Content(" ".join(words)), width)
    assert all(row.content.cell_length <= width for row in rows)
    assert text_between(rows, None, None) == " ".join(words)


@given(st.text("ab 日本🎉(", max_size=60), st.integers(4, 20))
def test_folded_rows_fit_and_are_one_line(line: str, width: int) -> None:
    rows = folded(Content(line), width, "↪ ")
    assert all(row.content.cell_length <= width for row in rows)
    assert "".join(row.content.plain[row.hang :] for row in rows) == line


def test_lines_of_a_text_stay_apart() -> None:
    rows = wrapped(Content("one two three\nfour"), 8)
    assert plain(rows) == ["one two", "three", "four"]
    assert text_between(rows, None, None) == "one two three\nfour"


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (Offset(2, 0), Offset(5, 0), "one"),
        (Offset(6, 0), Offset(4, 1), "two th"),
        (Offset(2, 0), None, "one two three\n• four"),
        (None, Offset(0, 2), "• one two three\n"),
    ],
    ids=["inside a row", "over a break", "to the end", "from the start"],
)
def test_what_is_selected_in_a_list(start: Offset | None, end: Offset | None, text: str) -> None:
    """The mark belongs to the text; the indent of rows that go on does not."""
    first = beside(wrapped(Content("one two three"), 8), Content("• "), Content("  "))
    second = beside(wrapped(Content("four"), 8), Content("• "), Content("  "))
    assert plain(first) == ["• one two", "  three"]
    assert text_between([*first, *second], start, end) == text


def test_an_empty_row_is_an_empty_line() -> None:
    rows = [*wrapped(Content("a"), 9), BLANK, *wrapped(Content("b"), 9)]
    assert text_between(rows, None, None) == "a\n\nb"
