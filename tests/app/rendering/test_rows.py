"""Wrapping, and the text that a selection of rows stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content
from textual.geometry import Offset

from ebbtide.app.markdown_parts import PartSplitter
from ebbtide.app.rendering.document import Document
from ebbtide.app.rendering.rows import (
    BLANK,
    Look,
    Row,
    beside,
    folded,
    marked_parts,
    text_between,
    wrapped,
)

WORDS = st.lists(st.text("abcß日本🎉", min_size=1, max_size=12), min_size=1, max_size=12)


def document(text: str) -> Document:
    made, splitter = Document(), PartSplitter()
    made.append([*splitter.push(text), *splitter.flush()])
    return made


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


CODE = "def f():\n\n\treturn a_name_that_goes_on\t# why  \n\n\n    x = 1  "


@pytest.mark.parametrize("width", [10, 14, 20, 80])
@pytest.mark.parametrize(
    "around",
    ["```python\n{}\n```\n", "> ```python\n> {}\n> ```\n", "1. ```python\n   {}\n   ```\n"],
    ids=["at the margin", "in a quote", "in a list"],
)
def test_a_copy_of_code_is_the_code_as_it_was_written(around: str, width: int) -> None:
    """Without label, margins and marks; with tabs, and with the spaces at the end of a line."""
    inner = ("\n" + around.partition("```")[0].replace("1.", "  ")).join(CODE.split("\n"))
    rows = document(around.format(inner)).rows(width, Look())[:-1]
    assert text_between(rows, None, None) == CODE
    first = next(y for y, row in enumerate(rows) if row.is_text)
    at_first_letter = Offset(rows[first].content.plain.index(CODE[0]), first)
    assert text_between(rows, at_first_letter, None) == CODE


def test_a_part_of_a_line_of_code() -> None:
    rows = document("```\n\tab\n  cd\n```\n").rows(20, Look())
    assert text_between(rows, Offset(0, 1), Offset(6, 1)) == "\ta"
    assert text_between(rows, Offset(5, 1), Offset(4, 2)) == "ab\n  c"
    assert text_between(rows, Offset(15, 0), Offset(6, 1)) == "\ta", "from the label on"


def test_a_copy_of_a_table_has_its_cells() -> None:
    rows = document("| name | n |\n|:--|--:|\n| a | 1 |\n| bcdef | 12 |\n").rows(40, Look())[:-1]
    assert text_between(rows, None, None) == "name\tn\na\t1\nbcdef\t12"


def test_a_copy_of_a_quote_has_no_bars_and_one_of_a_rule_nothing() -> None:
    rows = document("> one\n>\n> two\n\n---\n\nthree").rows(40, Look())[:-1]
    assert text_between(rows, None, None) == "one\n\ntwo\n\n\nthree"


def test_only_what_is_copied_is_marked() -> None:
    label, line, *_ = document("```\n\tab\n```\n").rows(12, Look())
    assert marked_parts(label, 0, None) == []
    assert marked_parts(line, 0, None) == [(1, 7)]
    assert marked_parts(line, 0, 3) == [(1, 3)]


def test_an_empty_row_is_an_empty_line() -> None:
    rows = [*wrapped(Content("a"), 9), BLANK, *wrapped(Content("b"), 9)]
    assert text_between(rows, None, None) == "a\n\nb"
