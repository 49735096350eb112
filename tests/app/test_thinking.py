"""Thinking is told from the answer, however the stream is cut and whoever wrote the opening tag."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.thinking import ThinkingParser, Thought, split_thinking

THOUGHT = "<think>\nfirst, second\n</think>\n\nThe answer is 2 < 3."


def parse(pieces: list[str], *, opened: bool = False) -> Thought:
    """What a reader sees at the end of a stream that comes in `pieces`."""
    parser = ThinkingParser(opened=opened)
    thinking, answer = "", ""
    for piece in [*pieces, None]:
        for kind, text in parser.flush() if piece is None else parser.push(piece):
            if kind == "was thinking":
                thinking, answer = thinking + answer, ""
            elif kind == "thinking":
                thinking += text
            else:
                answer += text
    return Thought(thinking.rstrip(), answer)


@pytest.mark.parametrize("at", range(len(THOUGHT) + 1))
def test_a_tag_may_be_cut_anywhere(at: int) -> None:
    assert parse([THOUGHT[:at], THOUGHT[at:]]) == ("first, second", "The answer is 2 < 3.")


@given(st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "th", "ink>", "\n", "x ", "a"])))
def test_how_the_text_is_cut_does_not_matter(pieces: list[str]) -> None:
    whole = "".join(pieces)
    for opened in (False, True):
        assert (
            parse(pieces, opened=opened) == parse([whole], opened=opened) == parse(list(whole), opened=opened)
        )
    assert split_thinking(whole) == parse(pieces)


@pytest.mark.parametrize(
    ("text", "opened", "thinking", "answer"),
    [
        ("plain", False, "", "plain"),
        ("so I think\n</think>\n\nYes.", True, "so I think", "Yes."),
        ("so I think\n</think>\n\nYes.", False, "so I think", "Yes."),  # the opening tag was not announced
        ("still at it", True, "still at it", ""),
        ("<think>cut off </thi", False, "cut off </thi", ""),
        ("<thin", False, "", "<thin"),
        ("<think></think>Yes.", False, "", "Yes."),
        (
            THOUGHT + " A </think> in text.",
            False,
            "first, second",
            "The answer is 2 < 3. A </think> in text.",
        ),
        ("Use <think> as a tag.", False, "", "Use <think> as a tag."),
        ("", True, "", ""),
    ],
)
def test_cases(text: str, opened: bool, thinking: str, answer: str) -> None:
    assert parse([text], opened=opened) == (thinking, answer)


def test_text_is_passed_on_as_soon_as_it_is_certain() -> None:
    parser = ThinkingParser(opened=True)
    assert parser.push("now <")[0].text == "now "
    assert parser.push("b")[0].text == "<b"
    assert parser.is_thinking
