"""Splitting at special tokens: leftmost first, longest of those that start together."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.text.specials import SpecialTokens

FINDER = SpecialTokens({"<a>": 1, "<a><b>": 2, "<b>": 3, "[": 4, "": 5})


def test_leftmost_then_longest() -> None:
    assert FINDER.split("x<a><b>y<a><a>") == ["x", 2, "y", 1, 1]
    assert FINDER.split("<<a>[[<b") == ["<", 1, 4, 4, "<b"]
    assert FINDER.split("") == []
    assert FINDER.split("plain") == ["plain"]


def test_no_special_tokens_at_all() -> None:
    assert SpecialTokens({}).split("<a>") == ["<a>"]


@given(st.text("<ab>[ x"))
def test_the_parts_make_up_the_text(text: str) -> None:
    texts = {1: "<a>", 2: "<a><b>", 3: "<b>", 4: "["}
    parts = FINDER.split(text)
    assert "".join(texts[part] if isinstance(part, int) else part for part in parts) == text
    assert all("<a>" not in part and "[" not in part for part in parts if isinstance(part, str))
