"""A model's tokens: those of a real tokenizer where one is at hand, filled up to the true number."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gguf import TokenType
from numpy.typing import NDArray

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.text.vocabulary import END_TEXTS
from tests.helpers.tiny_vocab import CHATML, tiny_vocab

_TAKEN = ("model", "pre", "bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token")
BYTE_RANK = 3000
"""Where single bytes stand among the tokens by frequency: rare, though their numbers are low."""


@dataclass(frozen=True)
class Words:
    """Texts, kinds and metadata of `tokenizer.*`; `real` counts those in front of the filling."""

    texts: list[str]
    kinds: NDArray[np.int32]
    keys: dict[str, Any]
    real: int

    @property
    def mute(self) -> NDArray[np.bool_]:
        """Tokens that must never be an answer's next one: those that end it, steer it or fill the list."""
        mute: NDArray[np.bool_] = self.kinds != int(TokenType.NORMAL)
        mute[[token for token, text in enumerate(self.texts) if text in END_TEXTS]] = True
        return mute

    @property
    def ranks(self) -> NDArray[np.float32]:
        """About how common a token is, 1 for the most common: merges are numbered that way."""
        ranks = np.arange(1, len(self.texts) + 1, dtype=np.float32)
        ranks[[len(text) == 1 for text in self.texts]] = BYTE_RANK
        return ranks


def words(count: int, tokenizer: Path | None) -> Words:
    """`count` tokens from a GGUF file's tokenizer, or from the tests' tiny one.

    Raises ValueError when the file has more, EbbtideError when it cannot be read.
    """
    texts, kinds, keys = _tiny() if tokenizer is None else _of_file(tokenizer)
    if len(texts) > count:
        raise ValueError(f"a vocabulary of {count} does not hold the {len(texts)} tokens of {tokenizer}")
    filled = texts + [f"[PAD{number}]" for number in range(len(texts), count)]
    all_kinds = np.full(count, int(TokenType.UNUSED), np.int32)
    all_kinds[: len(texts)] = kinds
    keys |= {"tokenizer.ggml.tokens": filled, "tokenizer.ggml.token_type": all_kinds}
    return Words(filled, all_kinds, keys, len(texts))


def _tiny() -> tuple[list[str], list[int], dict[str, Any]]:
    texts, kinds, _ = tiny_vocab()
    return texts, kinds, {}


def _of_file(path: Path) -> tuple[list[str], NDArray[np.int32], dict[str, Any]]:
    file = open_gguf(path)
    keys: dict[str, Any] = {"tokenizer.chat_template": file.get_str("tokenizer.chat_template", CHATML)}
    for name in _TAKEN:
        value = file.metadata.get(f"tokenizer.ggml.{name}")
        if value is not None:
            keys[f"tokenizer.ggml.{name}"] = value
    keys["tokenizer.ggml.merges"] = file.require_strs("tokenizer.ggml.merges")
    texts = file.require_strs("tokenizer.ggml.tokens")
    return texts, np.array(file.require_ints("tokenizer.ggml.token_type"), np.int32), keys
