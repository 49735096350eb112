"""A block that is being written has the shape that it has at last: its rows do not move when it is whole."""

import pytest
from textual.content import Content

from ebbtide.app.markdown_parts import PartSplitter
from ebbtide.app.rendering.document import Document
from ebbtide.app.rendering.rows import Look, Row
from ebbtide.app.safe_text import visible
from tests.app.markdown_corpus.documents import DOCUMENTS, LONG

LOOK = Look()
SHAPES = {
    "code": "Look:\n\n```python\ndef f():\n\treturn 1\n\n\nx = 2\n```\n\nafter",
    "code right below words": "Look:\n```sh\nls\n```\nafter",
    "a long line of code": "```\n0123456789 0123456789 0123456789 0123456789 0123456789\nb\n```\n",
    "lines of a paragraph": "one two\nthree four\n  five\n\nsix",
    "hard breaks": "one  \ntwo\\\nthree\n\nfour",
    "an item of several lines": "- one\n  two\n- three\nfour\n\nfive",
    "items with code": "1. Do:\n   ```sh\n   ls\n\n   pwd\n   ```\n2. Then:\n   ```\n   x\n   ```\n",
    "loose items": "1. one\n\n   ```sh\n   ls\n     -l\n   ```\n\n   more\n   words\n\n2. two\n\ntext",
    "lists in lists": "- a\n  - b\n    c\n    1. d\n    2. e\n  - f\n- g\n\ntext",
    "wide marks": "9. nine\n10. ten\n    goes on\n",
    "marks of three digits": "98. a\n99. b\n100. c\n101. d\n",
    "four spaces": "1.  one\n    two\n\n    - three\n      four\n",
    "a heading": "## Title of it\n\ntext",
    "a quote": "> one\n> two\n>\n> three\n\ntext",
    "code in a quote": "> ```py\n> x\n>   y\n> ```\n> end\n",
    "a list below words": "Words:\n- a\n- b\n\nend",
    "numbers in words": "It was in\n1984 and\n7. more\n\nend",
    "two lists": "- a\n\n1. b\n\ntext\n\n- c\n  d\n",
    "code of tildes": "~~~\n```\n~~~\n\n```\n~~~\n```\n",
}


def plain(rows: list[Row]) -> list[str]:
    return [row.content.plain.rstrip() for row in rows]


def streamed(text: str, width: int) -> list[tuple[str, list[str]]]:
    """Each beginning of the text, and what is shown when so much has come."""
    made, splitter, shown = Document(), PartSplitter(), []
    for end, sign in enumerate(text, 1):
        made.append(splitter.push(sign))
        made.open_text = splitter.rest
        shown.append((text[:end], plain(made.rows(width, LOOK))))
    return shown


def at_once(text: str, width: int) -> list[str]:
    made, splitter = Document(), PartSplitter()
    made.append([*splitter.push(text), *splitter.flush()])
    return plain(made.rows(width, LOOK))


@pytest.mark.parametrize("width", [9, 14, 30, 80])
@pytest.mark.parametrize("name", SHAPES)
def test_while_it_is_written_it_stands_where_it_will_stand(name: str, width: int) -> None:
    """Signs that may become anything, as the - of an item, are not shown before a letter follows."""
    for text, rows in streamed(SHAPES[name], width):
        last = text.rpartition("\n")[2]
        may_be = [text] if any(map(str.isalpha, last)) else [text, text.removesuffix(last)]
        assert rows in [at_once(each, width) for each in may_be], text


EMPHASIS = {
    "strong": "Some **strong words that are long** in it",
    "strong at the start": "**strong** and **more**.",
    "in an item": "- **Name**: what `it is` for\n- **Other**: ~~gone~~ *here*",
    "code": "Call `f(x) * 2` and ``a ` b`` then",
    "em": "an *em word* and _another one_ in it",
    "strong in strong": "***both* of** them and __strong__ too",
    "names": "a snake_case_name and 2 * 3 * 4 and x ** 2",
    "escapes": "not \\*em\\* here, 5\\_000",
    "pointers": "char *p and char *q are two",
    "a heading": "## The **title** of `it`",
}


@pytest.mark.parametrize("width", [14, 80])
@pytest.mark.parametrize("name", [name for name in EMPHASIS if name not in ("strong in strong", "pointers")])
def test_emphasis_looks_while_it_is_written_as_it_will_at_last(name: str, width: int) -> None:
    text = EMPHASIS[name]
    made = Document()
    made.open_text = text
    spans = [row.content.spans for row in made.rows(width, LOOK)]
    assert plain(made.rows(width, LOOK)) == at_once(text, width)
    whole, splitter = Document(), PartSplitter()
    whole.append([*splitter.push(text), *splitter.flush()])
    for mine, row in zip(spans, whole.rows(width, LOOK), strict=True):
        assert sorted(map(str, mine)) == sorted(map(str, row.content.spans))


@pytest.mark.parametrize("width", [14, 80])
@pytest.mark.parametrize("name", EMPHASIS)
def test_no_mark_of_strong_words_or_code_is_seen_and_what_was_kept_is_right(name: str, width: int) -> None:
    text, growing = EMPHASIS[name], Document()
    for end in range(1, len(text) + 1):
        growing.open_text = text[:end]
        fresh = Document()
        fresh.open_text = text[:end]
        rows = growing.rows(width, LOOK)
        assert [(row.content.plain, row.joint) for row in rows] == [
            (row.content.plain, row.joint) for row in fresh.rows(width, LOOK)
        ]
        assert [row.content.spans for row in rows] == [row.content.spans for row in fresh.rows(width, LOOK)]
        shown = "\n".join(plain(rows))
        if name in ("strong", "strong at the start", "in an item", "a heading"):
            assert "**" not in shown and "`" not in shown


def test_of_a_long_paragraph_with_emphasis_only_the_last_row_is_made_anew() -> None:
    made = Document()
    made.open_text = "**one two** three four **five six seven eight"
    before = made.rows(12, LOOK)
    made.open_text += " nine"
    after = made.rows(12, LOOK)
    assert all(old is new for old, new in zip(before[:-2], after, strict=False)) and len(before) > 3


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in LONG])
def test_whatever_is_written_fits_the_width(name: str) -> None:
    text = visible(DOCUMENTS[name])
    made, splitter = Document(), PartSplitter()
    for sign in text:
        made.append(splitter.push(sign))
        made.open_text = splitter.rest
        for row in made.rows(24, LOOK):
            assert row.content.cell_length <= 24, row


def code_document(code: str) -> Document:
    made = Document()
    made.open_text = f"```python\n{code}"
    return made


def test_finished_lines_of_open_code_have_colours() -> None:
    label, first, second, _ = code_document("return 1\nreturn 2").rows(40, LOOK)
    assert label.content.plain.strip() == "python  1" and not label.is_text
    assert len(first.content.spans) > len(second.content.spans)


def test_of_open_code_only_the_last_line_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from ebbtide.app.rendering import open_block

    made, asked = code_document("a = 1\nb = 2\nc"), []

    def counted(line: str, content: Content, width: int) -> list[Row]:
        asked.append(line)
        return [Row(content)]

    monkeypatch.setattr(open_block, "code_rows", counted)
    before = made.rows(40, LOOK)
    made.open_text += " ="
    after = made.rows(40, LOOK)
    assert asked == ["a = 1", "b = 2", "c", "c ="]
    assert [old is new for old, new in zip(before, after, strict=True)][1:4] == [True, True, False]
