"""Parts of a long answer: nothing is lost, and where they end does not depend on how the text came."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.markdown_parts import PART_BLOCKS, PartSplitter


def parts(text: str, size: int) -> list[str]:
    splitter, found = PartSplitter(), [""]
    pieces = [splitter.push(text[at : at + size]) for at in range(0, len(text), size)]
    for closed in [piece for pushed in [*pieces, splitter.flush()] for piece in pushed]:
        if closed.begins_part:
            found.append("")
        found[-1] += closed.text
    return found


@given(
    st.lists(st.sampled_from(["word\n\n", "- a\n\n", "# h\n", "```\nx\n\n```\n", "  in\n\n"]), max_size=80),
    st.integers(1, 9),
)
def test_how_the_text_is_cut_does_not_matter(blocks: list[str], size: int) -> None:
    text = "".join(blocks)
    assert parts(text, size) == parts(text, len(text) or 1)
    assert "".join(parts(text, size)) == text


def test_a_long_answer_has_many_parts() -> None:
    assert [part.count("word") for part in parts("word\n\n" * 50, 7)] == [PART_BLOCKS, PART_BLOCKS, 10]


@pytest.mark.parametrize(
    "block", ["- item\n\n", "1. item\n\n", "  more of it\n\n", "> quote\n\n", "| a |\n\n"]
)
def test_what_could_go_on_stays_together(block: str) -> None:
    assert len(parts(block * 50, 7)) == 1
