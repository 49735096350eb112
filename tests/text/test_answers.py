"""Answers remembered as they were sampled: what is kept of them, and for how long."""

import pytest

from ebbtide.engine.text import Tokenizer
from ebbtide.engine.text.answers import AnswerMemory, spell
from ebbtide.engine.text.byte_alphabet import CHARACTER_OF

START, END = 1, 2


def bytewise(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokenisation that nobody would choose: a token for each byte."""
    return [tokenizer.vocabulary.texts.index(CHARACTER_OF[byte]) for byte in text.encode()]


def test_ids_that_are_the_text(byte_level: Tokenizer) -> None:
    ids = bytewise(byte_level, "the naïve 日本")
    assert spell(byte_level, [*ids, END], "the naïve 日本") == (tuple(ids), "", False)


@pytest.mark.parametrize("shown", ["the n", "the na", "the naï"])
def test_ids_beyond_a_stop_string_are_left_out(byte_level: Tokenizer, shown: str) -> None:
    spelling = spell(byte_level, bytewise(byte_level, "the naïve"), shown)
    assert spelling is not None and spelling.rest == ""
    assert byte_level.decode(spelling.ids) == shown


def test_a_token_half_of_which_is_shown_is_plain_text(byte_level: Tokenizer) -> None:
    whole = byte_level.encode("x the", add_bos=False, parse_special=False)
    assert spell(byte_level, whole, "x th") == (tuple(whole[:1]), " th", False)


def test_a_broken_character_ends_the_ids(byte_level: Tokenizer) -> None:
    ids = bytewise(byte_level, "a日")[:-1]
    assert spell(byte_level, ids, "a\N{REPLACEMENT CHARACTER}") == (
        tuple(ids[:1]),
        "\N{REPLACEMENT CHARACTER}",
        False,
    )


def test_a_control_token_is_never_kept(byte_level: Tokenizer) -> None:
    a, b = bytewise(byte_level, "ab")
    assert spell(byte_level, [a, START, b], "ab") == ((a,), "b", False)
    assert spell(byte_level, [START, b], "b") is None


def test_ids_of_another_text(byte_level: Tokenizer) -> None:
    assert spell(byte_level, bytewise(byte_level, "xyz"), "abc") is None


def test_the_space_that_an_answer_begins_with(sentencepiece: Tokenizer) -> None:
    ids = sentencepiece.encode("the word", add_bos=False, parse_special=False)
    assert spell(sentencepiece, ids, "the word") == (tuple(ids), "", True)


def test_the_newest_of_equal_texts_is_remembered(byte_level: Tokenizer) -> None:
    memory = AnswerMemory(byte_level)
    whole = byte_level.encode("the", add_bos=False, parse_special=False)
    for ids in (bytewise(byte_level, "the"), whole):
        memory.remember(ids, "the")
    assert memory.spelling("the") == (tuple(whole), "", False)
    assert (len(memory), memory.tokens) == (1, len(whole))
    assert memory.spelling("the ") is None


def test_the_least_recently_used_are_forgotten(byte_level: Tokenizer) -> None:
    memory = AnswerMemory(byte_level, most_answers=3, most_tokens=12)
    for text in ("abcd", "efgh", "ijkl"):
        memory.remember(bytewise(byte_level, text), text)
    assert memory.spelling("abcd")
    memory.remember(bytewise(byte_level, "m"), "m")
    assert memory.spelling("efgh") is None and memory.spelling("abcd") and memory.spelling("m")
    memory.remember(bytewise(byte_level, "nopqrst"), "nopqrst")
    assert memory.spelling("ijkl") is None and memory.tokens == 12
    memory.remember(bytewise(byte_level, "x" * 13), "x" * 13)
    assert len(memory) == 0 and memory.tokens == 0


def test_nothing_is_remembered_of_an_empty_answer_or_after_clear(byte_level: Tokenizer) -> None:
    memory = AnswerMemory(byte_level)
    memory.remember([END], "")
    assert len(memory) == 0
    memory.remember(bytewise(byte_level, "a"), "a")
    memory.clear()
    assert memory.spelling("a") is None and memory.tokens == 0
