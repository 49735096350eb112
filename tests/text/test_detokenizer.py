"""Streaming gives whole characters, and together the same text as decoding everything at once."""

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.text import Detokenizer, Tokenizer
from ebbtide.engine.text.byte_alphabet import CHARACTER_OF


def streamed(tokenizer: Tokenizer, tokens: list[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.push(token) for token in tokens), detokenizer.flush()]


@given(data=st.data())
def test_any_tokens_stream_to_what_they_decode_to(
    byte_level: Tokenizer, sentencepiece: Tokenizer, data: st.DataObject
) -> None:
    for tokenizer in (byte_level, sentencepiece):
        tokens = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
        assert "".join(streamed(tokenizer, tokens)) == tokenizer.decode(tokens)


@given(raw=st.binary(max_size=24))
def test_any_bytes_stream_to_what_they_decode_to(byte_level: Tokenizer, raw: bytes) -> None:
    tokens = [byte_level.vocabulary.texts.index(CHARACTER_OF[byte]) for byte in raw]
    assert "".join(streamed(byte_level, tokens)) == raw.decode("utf-8", "replace")


@given(text=st.text("aé日👍🏽\u0301", max_size=12))
def test_characters_come_whole(sentencepiece: Tokenizer, text: str) -> None:
    raw_tokens = [3 + byte for byte in text.encode()]  # the byte pieces come right behind <unk>, <s>, </s>
    pieces = streamed(sentencepiece, raw_tokens)
    assert "".join(pieces) == text
    assert all("\ufffd" not in piece and len(piece) <= 1 for piece in pieces)


def test_an_answer_that_breaks_off_inside_a_character(sentencepiece: Tokenizer) -> None:
    assert streamed(sentencepiece, [3 + byte for byte in "日".encode()[:2]]) == ["", "", "\ufffd"]


def test_invalid_bytes_do_not_swallow_what_follows(sentencepiece: Tokenizer) -> None:
    assert streamed(sentencepiece, [3 + byte for byte in b"\xe6a\xffb"]) == ["", "\ufffda", "\ufffd", "b", ""]


def test_one_leading_space_can_be_dropped(sentencepiece: Tokenizer) -> None:
    tokens = sentencepiece.encode(" a b", add_bos=False, parse_special=False)
    detokenizer = Detokenizer(sentencepiece, strip_space=True)
    assert "".join(detokenizer.push(token) for token in [1, *tokens]) + detokenizer.flush() == " a b"
