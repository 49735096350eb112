"""Texts cut into passages, and the text that every machine has."""

import sources
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.eval import held_out
from ebbtide.app.eval.held_out import held_out_passages
from ebbtide.app.eval.passages import PASSAGE_CHARS, in_turns, split_passages
from ebbtide.engine.precision.library_text import is_held_out


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(4, 50))
def test_passages_lose_nothing_but_white_space(text: str, size: int) -> None:
    pieces = split_passages(text, size)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(piece.strip() for piece in pieces)
    assert all(len(piece) <= 2 * size for piece in pieces)


def test_texts_take_turns() -> None:
    short = "x" * 10
    long = "\n".join(str(at) * (PASSAGE_CHARS - 1) for at in range(4))
    found = list(in_turns([short, long]))
    assert found[0] == short
    assert [piece[0] for piece in found[1:]] == ["2", "3", "0", "1"]


def test_held_out_is_what_the_starter_was_not_trained_on() -> None:
    names = [*(f"stdlib/{name}.py" for name in ("ast", "heapq", "email/message", "typing")), "topics/return"]
    names += [f"topics/{at}" for at in range(200)]
    found = [is_held_out(name) for name in names]
    assert found == [sources.held_out(name) for name in names] and 5 < sum(found) < 30
    assert held_out.SKIPPED <= sources.SKIPPED


def test_there_is_code_and_prose_for_the_default() -> None:
    passages = held_out_passages()
    assert passages == held_out_passages()
    first = passages[:16]
    assert sum(map(len, first)) > 16_000 and len(set(first)) == 16
    code = [text for text in first if text.count("def ") + text.count("    return") + text.count(" = ") > 4]
    assert 4 <= len(code) <= 12
