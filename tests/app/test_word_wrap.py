"""Lines that end between words, however the text is cut into pieces."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ebbtide.app.word_wrap import WordWrap

WORDS = st.text("ab漢 \n", max_size=80)


def wrapped(text: str, columns: int) -> str:
    wrap = WordWrap(columns)
    return wrap.push(text) + wrap.end()


@given(WORDS, st.integers(4, 30), st.lists(st.integers(0, 80)))
def test_no_word_is_lost_or_cut_and_the_pieces_do_not_matter(
    text: str, columns: int, cuts: list[int]
) -> None:
    whole = wrapped(text, columns)
    assert whole.split() == text.split()
    assert [line for line in whole.split("\n") if " " in line.strip() and cell_len(line) > columns] == []
    wrap, at = WordWrap(columns), [0, *sorted(cuts), len(text)]
    pieces = [wrap.push(text[a:b]) for a, b in pairwise(at)]
    assert "".join(pieces) + wrap.end() == whole


def test_lines_end_between_words() -> None:
    assert wrapped("one two three four", 9) == "one two\nthree\nfour"
    assert wrapped("  - a list", 40) == "  - a list"
    assert wrapped("averylongword and more", 5) == "averylongword\nand\nmore"


def test_lines_of_code_stay_whole() -> None:
    text = "see here now\n```python\nx = 1 + 2 + 3 + 4\n```\nand here now"
    assert wrapped(text, 9) == "see here\nnow\n```python\nx = 1 + 2 + 3 + 4\n```\nand here\nnow"
