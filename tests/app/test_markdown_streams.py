"""A streamed answer is the answer at once: for every document of the corpus, wherever it is cut.

Documents of normal length are cut at every character; those in LONG at the ends of their lines and at fifty
places spread over them. All are compared with a parse of the whole text, which knows no parts and no blocks.
"""

import random
from collections.abc import Iterable
from functools import cache

import pytest
from markdown_it.token import Token

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.code_blocks import markdown_parser
from ebbtide.app.growing_markdown import GrowingMarkdown
from ebbtide.app.markdown_parts import Closed, PartSplitter
from ebbtide.app.safe_text import visible
from tests.app.markdown_corpus.documents import DOCUMENTS, LONG, THOUGHTS

Steps = tuple[tuple[Closed, ...], ...]


def cuts(name: str, text: str) -> list[int]:
    """Where a document is cut in two."""
    if name not in LONG:
        return list(range(len(text) + 1))
    edges = [at for at in range(1, len(text)) if text[at - 1] == "\n"]
    return [0, *edges, *range(0, len(text), len(text) // 50), len(text)]


def chunkings(text: str) -> Iterable[list[str]]:
    """One character at a time, seven, and of random lengths."""
    draw = random.Random(20)
    yield list(text)
    yield [text[at : at + 7] for at in range(0, len(text), 7)]
    pieces, at = [], 0
    while at < len(text):
        size = draw.randint(1, 60)
        pieces.append(text[at : at + size])
        at += size
    yield pieces


def steps(pieces: Iterable[str]) -> Steps:
    """What each draw closes when the pieces come one by one."""
    splitter = PartSplitter()
    pushed = [tuple(splitter.push(visible(piece))) for piece in pieces]
    return tuple(step for step in (*pushed, tuple(splitter.flush())) if step)


def html(tokens: list[Token]) -> str:
    parser = markdown_parser()
    return str(parser.renderer.render(tokens, parser.options, {}))


@cache
def ended(streamed: Steps) -> str:
    """What is on the screen at the end, as HTML; drawn as `AnswerTurn` does it."""
    references: dict[str, object] = {}
    parts = [GrowingMarkdown(references)]
    shown: list[list[list[Token]]] = [[]]
    for step in streamed:
        known = len(references)
        for closed in step:
            if closed.begins_part:
                parts.append(GrowingMarkdown(references))
                shown.append([])
            change = parts[-1].append(closed.text)
            shown[-1][change.kept :] = split(change.tokens)
        if len(references) > known:
            for at, part in enumerate(parts):
                shown[at] = split(part.again().tokens)
    return "".join(html(block) for part in shown for block in part)


def split(tokens: list[Token]) -> list[list[Token]]:
    blocks: list[list[Token]] = [[]]
    for token in tokens:
        blocks[-1].append(token)
        if token.level == 0 and token.nesting <= 0:
            blocks.append([])
    return blocks[:-1]


@cache
def at_once(text: str) -> str:
    return str(markdown_parser().render(visible(text)))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_cut_in_two_anywhere(name: str) -> None:
    text = DOCUMENTS[name]
    for at in cuts(name, text):
        assert ended(steps([text[:at], text[at:]])) == at_once(text), at


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name not in LONG])
def test_cut_off_anywhere(name: str) -> None:
    """An answer that is stopped, fails or is loaded again after a kill ends with any of its characters."""
    text = DOCUMENTS[name]
    for at in cuts(name, text)[::3]:
        assert ended(steps(list(text[:at]))) == at_once(text[:at]), at


@pytest.mark.parametrize("name", DOCUMENTS)
def test_in_many_pieces(name: str) -> None:
    text = DOCUMENTS[name]
    for pieces in chunkings(text):
        if len(pieces) < 20_000:
            assert ended(steps(pieces)) == at_once(text)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("name", [*THOUGHTS, *(name for name in DOCUMENTS if name not in LONG)])
def test_thinking_cut_in_two_anywhere(name: str, opened: bool) -> None:
    text = {**DOCUMENTS, **THOUGHTS}[name]
    whole = thought([text], opened)
    for at in range(len(text) + 1):
        assert thought([text[:at], text[at:]], opened) == whole, at
    for pieces in chunkings(text):
        assert thought(pieces, opened) == whole


def thought(pieces: Iterable[str], opened: bool) -> tuple[str, str]:
    content = AnswerContent(thinking_opened=opened)
    for piece in pieces:
        content.push(piece, 1)
    content.end()
    return content.thinking, content.answer
