"""Our tokenizer against llama.cpp's, on vocabularies of both kinds and on a real one where there is one."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.text import Tokenizer
from ebbtide.engine.text.pretokenizers import WORD_RULES
from tests.helpers.llama_oracle import LlamaOracle
from tests.helpers.nasty_texts import ALPHABET, NASTY
from tests.helpers.vocab_files import ADD_BOS, byte_level_keys, sentencepiece_keys, write_vocab


class Pair(NamedTuple):
    ours: Tokenizer
    theirs: LlamaOracle


def pair_of(path: Path) -> Pair:
    return Pair(Tokenizer.from_gguf(open_gguf(path)), LlamaOracle(path))


def assert_same(pair: Pair, text: str) -> None:
    for add_bos in (False, True):
        for parse_special in (False, True):
            ours = pair.ours.encode(text, add_bos=add_bos, parse_special=parse_special)
            assert ours == pair.theirs.encode(text, add_bos=add_bos, parse_special=parse_special), text


@pytest.fixture(scope="module", params=["byte-level", "sentencepiece", "sentencepiece without space"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    keys = {
        "byte-level": byte_level_keys(),
        "sentencepiece": sentencepiece_keys(),
        "sentencepiece without space": sentencepiece_keys(add_space=False),
    }
    path = write_vocab(tmp_path_factory.mktemp("vocab") / "vocab.gguf", keys[request.param])
    pair = pair_of(path)
    yield pair
    pair.theirs.close()


@pytest.mark.parametrize("text", NASTY)
def test_nasty_texts(pair: Pair, text: str) -> None:
    assert_same(pair, text)


@given(text=st.text(ALPHABET, max_size=60))
def test_random_texts(pair: Pair, text: str) -> None:
    assert_same(pair, text)


def test_bytes_and_ends_of_every_token(pair: Pair) -> None:
    for token in range(pair.ours.vocab_size):
        assert pair.ours.token_bytes(token) == pair.theirs.token_bytes(token)
        assert pair.ours.is_end(token) == pair.theirs.is_end(token)


@pytest.mark.parametrize("name", WORD_RULES)
def test_every_word_rule(name: str, tmp_path: Path) -> None:
    keys = byte_level_keys(name)
    del keys[ADD_BOS]  # so that the rule decides
    pair = pair_of(write_vocab(tmp_path / "vocab.gguf", keys))
    for text in NASTY:
        ours = pair.ours.encode(text, add_bos=True, parse_special=True)
        assert ours == pair.theirs.encode(text, add_bos=True, parse_special=True), text
    pair.theirs.close()


@pytest.mark.skipif("EBBTIDE_TEST_BASE" not in os.environ, reason="EBBTIDE_TEST_BASE names no GGUF file")
def test_a_real_model() -> None:
    pair = pair_of(Path(os.environ["EBBTIDE_TEST_BASE"]))
    for text in NASTY:
        assert_same(pair, text)
    test_bytes_and_ends_of_every_token(pair)
    pair.theirs.close()
