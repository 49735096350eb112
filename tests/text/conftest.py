"""Files with a tokenizer, and texts objects read from them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ebbtide.engine.gguf import GgufFile, open_gguf
from ebbtide.engine.text import Tokenizer
from tests.helpers.vocab_files import byte_level_keys, sentencepiece_keys, write_vocab

OpenKeys = Callable[[Mapping[str, object]], GgufFile]


@pytest.fixture
def open_keys(tmp_path: Path) -> OpenKeys:
    """Writes a vocabulary-only file with these keys and opens it."""
    return lambda keys: open_gguf(write_vocab(tmp_path / "vocab.gguf", keys))


@pytest.fixture(scope="session")
def byte_level(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = write_vocab(tmp_path_factory.mktemp("byte-level") / "vocab.gguf", byte_level_keys())
    return Tokenizer.from_gguf(open_gguf(path))


@pytest.fixture(scope="session")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = write_vocab(tmp_path_factory.mktemp("sentencepiece") / "vocab.gguf", sentencepiece_keys())
    return Tokenizer.from_gguf(open_gguf(path))
