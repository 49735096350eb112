"""Tokens to text while they arrive."""

import codecs

from ebbtide.engine.text.tokenizer import Tokenizer


class Detokenizer:
    """Gives text in whole characters: bytes of an unfinished one wait for the next token.

    Bytes that can not become UTF-8 turn into U+FFFD. Everything returned for a row of tokens, together,
    equals `Tokenizer.decode` of them. `strip_space` drops one leading space, which SentencePiece models put
    in front of an answer.
    """

    def __init__(self, tokenizer: Tokenizer, *, strip_space: bool = False) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._strip = strip_space

    def push(self, token: int) -> str:
        """The text that `token` completes, often empty for parts of characters."""
        return self._emit(self._decoder.decode(self._tokenizer.token_bytes(token)))

    def flush(self) -> str:
        """What is left at the end of an answer: U+FFFD if it breaks off inside a character."""
        return self._emit(self._decoder.decode(b"", final=True))

    def _emit(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text
