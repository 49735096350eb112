"""Both kinds of tokenizer: nothing lost, special tokens only where asked for, broken files refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.errors import ModelError
from ebbtide.engine.text import Tokenizer
from ebbtide.engine.text.byte_alphabet import BYTE_OF, CHARACTER_OF, spelled_bytes
from tests.helpers.nasty_texts import NASTY
from tests.helpers.vocab_files import (
    ADD_BOS,
    BOS,
    CONTROL,
    EOS,
    LIST,
    MERGES,
    MODEL,
    NORMAL,
    PRE,
    SCORES,
    TYPES,
    UNK,
    byte_level_keys,
    sentencepiece_keys,
)
from tests.text.conftest import OpenKeys

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.mark.parametrize("text", NASTY)
def test_byte_level_loses_nothing(byte_level: Tokenizer, text: str) -> None:
    assert byte_level.decode(byte_level.encode(text, add_bos=True, parse_special=False)) == text


@given(text=ANY_TEXT)
def test_byte_level_loses_nothing_of_any_text(byte_level: Tokenizer, text: str) -> None:
    assert byte_level.decode(byte_level.encode(text, add_bos=False, parse_special=False)) == text


@given(text=ANY_TEXT)
def test_sentencepiece_loses_nothing_but_its_own_space(sentencepiece: Tokenizer, text: str) -> None:
    plain = text.replace("\u2581", " ").replace(
        "<think>", ""
    )  # a space in disguise; a token with its own rules
    decoded = sentencepiece.decode(sentencepiece.encode(plain, add_bos=True, parse_special=False))
    assert decoded == (" " + plain if plain else "")


def test_lone_surrogates_become_replacement_characters(
    byte_level: Tokenizer, sentencepiece: Tokenizer
) -> None:
    for tokenizer in (byte_level, sentencepiece):
        tokens = tokenizer.encode("a\ud800b", add_bos=False, parse_special=False)
        assert tokenizer.decode(tokens).strip() == "a\ufffdb"


def test_special_tokens_only_where_asked(byte_level: Tokenizer) -> None:
    text = "<|im_start|>user<|im_end|>"
    assert byte_level.encode(text, add_bos=False, parse_special=True)[:1] == [1]
    plain = byte_level.encode(text, add_bos=False, parse_special=False)
    assert not any(byte_level.is_control(token) for token in plain)
    assert byte_level.decode(plain) == text


def test_user_defined_tokens_are_always_found(byte_level: Tokenizer) -> None:
    think = byte_level.vocabulary.texts.index("<think>")
    for parse_special in (False, True):
        assert byte_level.encode("<think>", add_bos=False, parse_special=parse_special) == [think]
    assert byte_level.token_bytes(think) == b"<think>"


def test_control_tokens_are_no_part_of_the_text(byte_level: Tokenizer, sentencepiece: Tokenizer) -> None:
    assert byte_level.token_bytes(byte_level.eos_id) == b""
    assert sentencepiece.decode([1, 2, 0]) == ""


def test_whole_words_cannot_reach_a_control_token(open_keys: OpenKeys) -> None:
    keys = byte_level_keys("llama-bpe")
    keys[LIST] = ["halt", *list(_texts(keys))[1:]]
    tokenizer = Tokenizer.from_gguf(open_keys(keys))
    assert tokenizer.encode("halt", add_bos=False, parse_special=True) == [0]
    assert 0 not in tokenizer.encode("halt", add_bos=False, parse_special=False)


def test_merging_cannot_reach_a_control_token(open_keys: OpenKeys) -> None:
    keys = sentencepiece_keys()
    texts, kinds = list(_texts(keys)), np.array(keys[TYPES])
    texts[-4:] = ["</", "s>", "<s", "/s>"]
    kinds[-4:] = NORMAL
    tokenizer = Tokenizer.from_gguf(open_keys(keys | {LIST: texts, TYPES: kinds}))
    tokens = tokenizer.encode("</s>", add_bos=False, parse_special=False)
    assert tokenizer.eos_id not in tokens
    assert tokenizer.decode(tokens) == " </s>"
    assert tokenizer.encode("</s>", add_bos=False, parse_special=True) == [tokenizer.eos_id]


def test_bos_where_the_model_wants_it(byte_level: Tokenizer, sentencepiece: Tokenizer) -> None:
    assert sentencepiece.encode("", add_bos=True, parse_special=False) == [1]
    assert sentencepiece.encode("", add_bos=False, parse_special=False) == []
    assert byte_level.encode("", add_bos=True, parse_special=False) == []


def test_end_tokens(byte_level: Tokenizer, open_keys: OpenKeys) -> None:
    assert [byte_level.is_end(token) for token in range(4)] == [True, False, True, False]
    assert (byte_level.bos_id, byte_level.eos_id, byte_level.eot_id) == (1, 2, None)
    keys = byte_level_keys() | {EOS: 0}
    assert Tokenizer.from_gguf(open_keys(keys)).eot_id == 2
    texts = _texts(keys)
    harmony = ["<|return|>", "<|call|>", "<|end|>", *texts[3:]]
    ends = Tokenizer.from_gguf(open_keys(keys | {LIST: harmony})).vocabulary.end_ids
    assert ends == {0, 1}


def test_html_of_a_normal_token_ends_nothing(open_keys: OpenKeys) -> None:
    keys = byte_level_keys()
    texts = _texts(keys)
    texts[-1] = "</s>"
    kinds = np.array(keys[TYPES])
    kinds[-1] = NORMAL
    assert not Tokenizer.from_gguf(open_keys(keys | {LIST: texts, TYPES: kinds})).is_end(len(texts) - 1)


def test_end_texts_count_as_control_whatever_the_file_says(open_keys: OpenKeys) -> None:
    keys = byte_level_keys()
    kinds = np.where(np.array(keys[TYPES]) == CONTROL, NORMAL, np.array(keys[TYPES]))
    tokenizer = Tokenizer.from_gguf(open_keys(keys | {TYPES: kinds.astype(np.int32)}))
    assert tokenizer.encode("<|im_end|>", add_bos=False, parse_special=True) == [2]
    assert tokenizer.encode("<|im_end|>", add_bos=False, parse_special=False) != [2]


def test_control_characters_without_a_token_vanish_and_nothing_else(open_keys: OpenKeys) -> None:
    keys = byte_level_keys()
    texts = [
        f"[unused {byte}]" if text == CHARACTER_OF[byte] else text for text in _texts(keys) for byte in [4]
    ]
    tokenizer = Tokenizer.from_gguf(open_keys(keys | {LIST: texts}))
    assert tokenizer.decode(tokenizer.encode("a\x04b\x05", add_bos=False, parse_special=False)) == "ab\x05"


def test_unnamed_word_rule_is_announced(open_keys: OpenKeys) -> None:
    keys = byte_level_keys()
    del keys[PRE]
    assert "does not say how text is split" in Tokenizer.from_gguf(open_keys(keys)).notices[0]
    assert Tokenizer.from_gguf(open_keys(byte_level_keys())).notices == ()


@pytest.mark.parametrize(
    "keys", [byte_level_keys(), sentencepiece_keys()], ids=["byte-level", "sentencepiece"]
)
@pytest.mark.parametrize("absent", [MODEL, LIST, EOS])
def test_required_keys(open_keys: OpenKeys, keys: dict[str, object], absent: str) -> None:
    with pytest.raises(ModelError, match=f"has no key '{absent}'"):
        Tokenizer.from_gguf(open_keys({key: value for key, value in keys.items() if key != absent}))


BYTES_LESS = [text for text in byte_level_keys()[LIST] if text != "a"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({MODEL: "bert"}, "its tokenizer is of kind 'bert'"),
        ({PRE: "klingon"}, "its text splitting 'klingon'"),
        ({LIST: []}, "holds no tokens"),
        ({LIST: "text"}, "holds text, not a list of texts"),
        ({TYPES: np.array([1, 2], np.int32)}, "holds 2 entries"),
        ({TYPES: ["a"]}, "not a list of whole numbers"),
        ({EOS: 99999}, "holds token 99999, not a token of this vocabulary"),
        ({EOS: "x"}, "not a whole number"),
        ({BOS: 99999}, "holds token 99999"),
        ({MERGES: ["nospace"]}, "holds 'nospace', not two tokens"),
        ({MERGES: ["a zzzzz"]}, "not merges of its own tokens"),
        ({LIST: BYTES_LESS, TYPES: np.ones(len(BYTES_LESS), np.int32)}, r"no token for 1 bytes \(0x61\)"),
    ],
)
def test_broken_byte_level_vocabularies(open_keys: OpenKeys, changes: dict[str, object], says: str) -> None:
    with pytest.raises(ModelError, match=says) as caught:
        Tokenizer.from_gguf(open_keys(byte_level_keys() | changes))
    assert caught.value.exit_code == 3
    assert caught.value.hint


def test_broken_sentencepiece_vocabularies(open_keys: OpenKeys) -> None:
    keys = sentencepiece_keys()
    for absent in (SCORES, BOS):
        with pytest.raises(ModelError, match=f"has no key '{absent}'"):
            Tokenizer.from_gguf(open_keys({key: value for key, value in keys.items() if key != absent}))
    with pytest.raises(ModelError, match="holds 1 entries"):
        Tokenizer.from_gguf(open_keys(keys | {SCORES: np.zeros(1, np.float32)}))
    types = np.where(np.array(keys[TYPES]) == 6, NORMAL, np.array(keys[TYPES])).astype(np.int32)
    no_fallback = {key: value for key, value in (keys | {TYPES: types}).items() if key != UNK}
    with pytest.raises(ModelError, match="neither pieces for all bytes nor an unknown token"):
        Tokenizer.from_gguf(open_keys(no_fallback))


def test_bos_may_be_missing_where_none_is_wanted(open_keys: OpenKeys) -> None:
    keys = {key: value for key, value in byte_level_keys().items() if key != BOS}
    assert Tokenizer.from_gguf(open_keys(keys)).bos_id is None
    with pytest.raises(ModelError, match=f"has no key '{BOS}'"):
        Tokenizer.from_gguf(open_keys(keys | {ADD_BOS: True}))


def test_the_byte_alphabet_is_a_bijection() -> None:
    assert len(BYTE_OF) == len(CHARACTER_OF) == 256
    assert spelled_bytes("".join(CHARACTER_OF[byte] for byte in range(256))) == bytes(range(256))
    assert spelled_bytes("日a") == "日a".encode()


def _texts(keys: dict[str, object]) -> list[str]:
    texts = keys[LIST]
    assert isinstance(texts, list)
    return list(texts)
