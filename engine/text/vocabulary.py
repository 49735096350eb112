"""The token list of a file: texts, kinds, and which tokens begin a text or end an answer."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from gguf.constants import Keys, TokenType
from numpy.typing import NDArray

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.gguf.faults import missing_key, wrong_value

KEYS: Final = Keys.Tokenizer

_DEEPSEEK_END = "<\uff5cend\u2581of\u2581sentence\uff5c>"
_TEXT_ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[EOS]", _DEEPSEEK_END)
_TURN_ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<end_of_utterance>", "<EOT>", "[EOT]")
_CALL_ENDS = ("<|return|>", "<|call|>", "<|eom_id|>")
_FILE_ENDS = ("<|fim_pad|>", "<fim_pad>", "<|repo_name|>", "<|fim_repo|>", "<reponame>", "<|file_sep|>")
END_TEXTS = frozenset({*_TEXT_ENDS, *_TURN_ENDS, *_CALL_ENDS, *_FILE_ENDS})
"""Texts that end an answer in the families known; files often name only one of several end tokens.

A token of kind NORMAL counts only if it looks like nothing else (`</s>` is also a piece of HTML).
"""

_HARMONY = frozenset({"<|return|>", "<|call|>"})
"""Where these exist, `<|end|>` closes a message inside an answer, not the answer."""


@dataclass(frozen=True)
class Vocabulary:
    """What `tokenizer.ggml.*` says about tokens. `kinds` u8[n] holds `gguf.TokenType` numbers."""

    texts: list[str]
    kinds: NDArray[np.uint8]
    bos_id: int | None
    eos_id: int
    eot_id: int | None
    """The token that ends a turn, where it is not `eos_id`."""
    end_ids: frozenset[int]

    def __len__(self) -> int:
        return len(self.texts)

    def text_of(self, token: int | None) -> str:
        """The text of a token as the file spells it; nothing for None."""
        return "" if token is None else self.texts[token]

    def ids_of_kind(self, *kinds: TokenType) -> list[int]:
        """Every token of one of `kinds`, in order."""
        return [int(i) for i in np.flatnonzero(np.isin(self.kinds, [int(kind) for kind in kinds]))]


def read_vocabulary(file: GgufFile) -> Vocabulary:
    """Raises `ModelError` when the token list or its end token are missing, or keys contradict each other."""
    texts = file.require_strs(KEYS.LIST)
    if not texts:
        raise wrong_value(file.path, KEYS.LIST, "no tokens", "a vocabulary")
    kinds = _read_kinds(file, len(texts))
    end_ids = _find_ends(file, texts, kinds)
    kinds[list(end_ids)] = TokenType.CONTROL
    eos_id, bos_id = read_id(file, KEYS.EOS_ID, len(texts)), read_id(file, KEYS.BOS_ID, len(texts))
    if eos_id is None:
        raise missing_key(file.path, KEYS.EOS_ID)
    return Vocabulary(texts, kinds, bos_id, eos_id, _turn_end(file, texts, eos_id), end_ids)


def read_id(file: GgufFile, key: str, count: int) -> int | None:
    """The token that `key` names, None without the key. Raises `ModelError` when it is not below `count`."""
    token = file.get_int(key, None)
    if token is not None and not 0 <= token < count:
        raise wrong_value(file.path, key, f"token {token}", f"a token of this vocabulary of {count}")
    return token


def _read_kinds(file: GgufFile, count: int) -> NDArray[np.uint8]:
    if KEYS.TOKEN_TYPE not in file.metadata:
        return np.full(count, TokenType.NORMAL, np.uint8)
    kinds = file.require_ints(KEYS.TOKEN_TYPE)
    if len(kinds) != count:
        raise wrong_value(
            file.path, KEYS.TOKEN_TYPE, f"{len(kinds)} entries", f"one for each of {count} tokens"
        )
    return np.clip(kinds, 0, 255).astype(np.uint8)


def _find_ends(file: GgufFile, texts: list[str], kinds: NDArray[np.uint8]) -> frozenset[int]:
    found = {text: token for token, text in enumerate(texts) if text in END_TEXTS}
    found = {t: i for t, i in found.items() if kinds[i] != TokenType.NORMAL or t.startswith("<|")}
    if found.keys() >= _HARMONY:
        found.pop("<|end|>", None)
    keys = (KEYS.EOS_ID, KEYS.EOT_ID, KEYS.EOM_ID, KEYS.FIM_PAD_ID, KEYS.FIM_REP_ID, KEYS.FIM_SEP_ID)
    named = (read_id(file, key, len(texts)) for key in keys)
    return frozenset(found.values()) | frozenset(token for token in named if token is not None)


def _turn_end(file: GgufFile, texts: list[str], eos_id: int) -> int | None:
    named = read_id(file, KEYS.EOT_ID, len(texts))
    if named is not None or texts[eos_id] in _TURN_ENDS:
        return named if named != eos_id else None
    return next((texts.index(text) for text in _TURN_ENDS if text in texts), None)
