"""Answers as the model spelled them: a text has many tokenisations, keys exist for the sampled one only."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.engine.text.tokenizer import Tokenizer

MOST_ANSWERS = 4096
MOST_TOKENS = 1 << 18
"""Together at most about 3 MiB. Constants: what is remembered must not depend on budget or threads."""

_CONTINUES = range(0x80, 0xC0)
"""Bytes in the middle of a UTF-8 character."""


class Spelling(NamedTuple):
    """`ids`, then `rest` as plain text, are an answer's text. No id is a control token."""

    ids: tuple[int, ...]
    rest: str
    leading_space: bool
    """The ids begin with a space that is no part of the text (SentencePiece)."""


def spell(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> Spelling | None:
    """How `ids`, sampled for an answer shown as `text`, spell it; None where not even the start fits.

    They are followed as long as their bytes are those of the text, up to a whole character: a stop string, a
    control token or a broken character ends them, and `rest` is what the text has beyond.
    """
    leading_space = tokenizer.adds_space and _first_byte(tokenizer, ids) == b" "
    wanted = (" " if leading_space else "").encode() + text.encode("utf-8", "replace")
    done = whole = count = 0
    for place, token in enumerate(ids):
        piece = tokenizer.token_bytes(token)
        if tokenizer.is_control(token) or wanted[done : done + len(piece)] != piece:
            break
        done += len(piece)
        if done == len(wanted) or wanted[done] not in _CONTINUES:
            whole, count = done, place + 1
    if whole <= leading_space:
        return None
    return Spelling(tuple(ids[:count]), wanted[whole:].decode("utf-8", "replace"), leading_space)


def _first_byte(tokenizer: Tokenizer, ids: Sequence[int]) -> bytes:
    return next((piece[:1] for token in ids if (piece := tokenizer.token_bytes(token))), b"")


class AnswerMemory:
    """The sampled ids of recent answers by their text; the least recently used are forgotten first."""

    def __init__(
        self, tokenizer: Tokenizer, *, most_answers: int = MOST_ANSWERS, most_tokens: int = MOST_TOKENS
    ) -> None:
        self._tokenizer = tokenizer
        self._most_answers, self._most_tokens = most_answers, most_tokens
        self._ids: OrderedDict[str, array[int]] = OrderedDict()
        self._tokens = 0

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def tokens(self) -> int:
        """Ids remembered in all."""
        return self._tokens

    def remember(self, ids: Sequence[int], text: str) -> None:
        """Keep the ids of an answer; of two with the same text, the newer."""
        self._forget(text)
        if not text or not ids:
            return
        self._ids[text] = array("i", ids)
        self._tokens += len(ids)
        while len(self._ids) > self._most_answers or self._tokens > self._most_tokens:
            self._forget(next(iter(self._ids)))

    def spelling(self, text: str) -> Spelling | None:
        """How the answer with exactly this text was spelled; None when none is known."""
        ids = self._ids.get(text)
        if ids is None:
            return None
        self._ids.move_to_end(text)
        return spell(self._tokenizer, ids, text)

    def copy(self) -> "AnswerMemory":
        """The same answers; what is looked up there does not count as used here."""
        copy = AnswerMemory(self._tokenizer, most_answers=self._most_answers, most_tokens=self._most_tokens)
        copy._ids, copy._tokens = OrderedDict(self._ids), self._tokens
        return copy

    def clear(self) -> None:
        """Forget every answer."""
        self._ids.clear()
        self._tokens = 0

    def _forget(self, text: str) -> None:
        self._tokens -= len(self._ids.pop(text, ()))
