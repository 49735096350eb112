"""Streaming Markdown in blocks: nothing is lost, blocks close where they should, fences stay whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.markdown_blocks import BlockSplitter

PIECES = st.lists(
    st.sampled_from(["```", "~~~~", "\n", "\n\n", "- a", "# h", " x", "|a|b|", "1. ", "`", ">"])
)


@given(PIECES)
def test_the_pieces_are_the_text(pieces: list[str]) -> None:
    splitter = BlockSplitter()
    closed = "".join(splitter.push(piece) for piece in pieces)
    assert closed + splitter.rest == "".join(pieces)
    assert closed + splitter.flush() == "".join(pieces) and splitter.rest == ""


@given(st.text("ab`\n #-", max_size=60), st.integers(1, 5))
def test_how_the_text_is_cut_does_not_matter(text: str, size: int) -> None:
    whole, parts = BlockSplitter(), BlockSplitter()
    closed = "".join(parts.push(text[at : at + size]) for at in range(0, len(text), size))
    assert (closed, parts.rest) == (whole.push(text), whole.rest)


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("one\ntwo", ""),
        ("one\n\ntwo", "one\n\n"),
        ("# title\nmore", "# title\n"),
        ("```python\na = 1\n\nb = 2\n", ""),
        ("```python\na = 1\n\nb = 2\n```\nrest", "```python\na = 1\n\nb = 2\n```\n"),
        ("````\n```\n\n````\nrest", "````\n```\n\n````\n"),
        ("~~~\n```\n~~~\nrest", "~~~\n```\n~~~\n"),
        ("- item\n  ```\n  x\n\n  y\n", ""),
        ("1. ```sh\n   ls\n\n", ""),
        ("a ``` b\n\nrest", "a ``` b\n\n"),
        ("``` `not a fence`\n\nrest", "``` `not a fence`\n\n"),
        ("| a |\n|---|\n| b |\n", ""),
    ],
)
def test_where_blocks_close(text: str, closed: str) -> None:
    assert BlockSplitter().push(text) == closed
