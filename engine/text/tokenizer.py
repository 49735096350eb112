"""Text to tokens and back, as the model's file defines it."""

import re
from collections.abc import Iterable
from typing import Protocol

from gguf.constants import TokenType

from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.gguf.faults import missing_key, shown, unsupported
from ebbtide.engine.text.byte_bpe import ByteBpe
from ebbtide.engine.text.sentencepiece import SentencePiece
from ebbtide.engine.text.specials import SpecialTokens
from ebbtide.engine.text.vocabulary import KEYS, Vocabulary, read_vocabulary

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
_HIDDEN_KINDS = frozenset({TokenType.CONTROL, TokenType.UNKNOWN})

Part = str | int | tuple[int, ...]
"""Plain text, a special token, or plain text that is in tokens already."""


class Encoder(Protocol):
    """What the two kinds of vocabulary have in common."""

    adds_bos: bool
    """Whether texts begin with the BOS token when the file does not say."""
    adds_space: bool
    """Whether a text, and each stretch behind a special token, gets a space in front."""
    notices: tuple[str, ...]

    def encode(self, text: str) -> list[int]: ...

    @staticmethod
    def token_bytes(text: str) -> bytes: ...


_KINDS: dict[str, type[ByteBpe] | type[SentencePiece]] = {"gpt2": ByteBpe, "llama": SentencePiece}


class Tokenizer:
    """Immutable once built, so that threads may share it.

    Control tokens in text are found only with `parse_special`; user-defined tokens (such as `<think>` in some
    families) are part of the language and always found. Neither can come about by merging.
    """

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, *, add_bos: bool) -> None:
        self.vocabulary = vocabulary
        self.add_bos = add_bos
        """Whether the model wants its texts to begin with the BOS token."""
        self.notices = encoder.notices
        self.adds_space = encoder.adds_space
        self._encoder = encoder
        user_defined = {vocabulary.texts[i]: i for i in vocabulary.ids_of_kind(TokenType.USER_DEFINED)}
        controls = {vocabulary.texts[i]: i for i in vocabulary.ids_of_kind(*_HIDDEN_KINDS)}
        self.user_defined = SpecialTokens(user_defined)
        self.controls = SpecialTokens(controls)
        self.specials = SpecialTokens(user_defined | controls)

    @classmethod
    def from_gguf(cls, file: GgufFile, vocabulary: Vocabulary | None = None) -> "Tokenizer":
        """Raises `ModelError` when the file has no tokenizer, a broken one, or one of an unknown kind."""
        model = file.require_str(KEYS.MODEL)
        if model not in _KINDS:
            hint = f"Known are {' and '.join(_KINDS)}. Use a model with one of these."
            raise unsupported(file.path, f"its tokenizer is of kind {shown(model)}", hint)
        vocabulary = vocabulary or read_vocabulary(file)
        encoder = _KINDS[model](file, vocabulary)
        add_bos = file.get_bool(KEYS.ADD_BOS, encoder.adds_bos)
        if add_bos and vocabulary.bos_id is None:
            raise missing_key(file.path, KEYS.BOS_ID)
        return cls(vocabulary, encoder, add_bos=add_bos)

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary)

    @property
    def bos_id(self) -> int | None:
        return self.vocabulary.bos_id

    @property
    def eos_id(self) -> int:
        return self.vocabulary.eos_id

    @property
    def eot_id(self) -> int | None:
        return self.vocabulary.eot_id

    def is_control(self, token: int) -> bool:
        """Whether the token steers the model and is no part of the text."""
        return self.vocabulary.kinds[token] in _HIDDEN_KINDS

    def is_end(self, token: int) -> bool:
        """Whether the model says with this token that its answer is complete."""
        return token in self.vocabulary.end_ids

    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        """Tokens of `text`; `add_bos` puts BOS in front if the model wants one."""
        finder = self.specials if parse_special else self.user_defined
        return self.encode_parts(finder.split(text), add_bos=add_bos)

    def encode_parts(self, parts: Iterable[Part], *, add_bos: bool) -> list[int]:
        """Tokens of plain text between special tokens, as `SpecialTokens.split` gives them.

        Lone surrogates, which no vocabulary can spell, become U+FFFD.
        """
        tokens = [self.bos_id] if add_bos and self.add_bos and self.bos_id is not None else []
        behind_special = True
        for part in parts:
            if isinstance(part, int):
                tokens.append(part)
            elif isinstance(part, tuple):
                tokens.extend(part)
            else:
                space = " " if self.adds_space and behind_special else ""
                tokens.extend(self._encoder.encode(space + _LONE_SURROGATES.sub("\ufffd", part)))
            behind_special = isinstance(part, int)
        return tokens

    def count(self, text: str) -> int:
        """How many tokens `text` is in the middle of other text: without BOS and without a space in front."""
        parts = self.user_defined.split(_LONE_SURROGATES.sub("\ufffd", text))
        return sum(1 if isinstance(part, int) else len(self._encoder.encode(part)) for part in parts)

    def token_bytes(self, token: int) -> bytes:
        """What a token adds to the text: nothing if it is a control token, maybe half a character if not."""
        text, kind = self.vocabulary.texts[token], self.vocabulary.kinds[token]
        if kind in _HIDDEN_KINDS:
            return b""
        if kind == TokenType.BYTE:
            return _byte_value(text)
        return text.encode() if kind == TokenType.USER_DEFINED else self._encoder.token_bytes(text)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of `tokens`; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self.token_bytes(token) for token in tokens).decode("utf-8", "replace")


def _byte_value(text: str) -> bytes:
    """`<0x0A>` -> newline."""
    try:
        return bytes([int(text[3:5], 16)])
    except ValueError:
        return text.encode()
