"""Tells a model's thinking from its answer while both stream in.

A tag may be cut anywhere between two pieces of text. Some templates write the opening tag themselves, so that
only the closing one appears in the stream; and a stream can end in the middle of thinking.
"""

from typing import Literal, NamedTuple

OPEN, CLOSE = "<think>", "</think>"

Kind = Literal["thinking", "answer", "was thinking"]


class Piece(NamedTuple):
    """Text of one kind. "was thinking" has no text: all that came before was thinking, not answer."""

    kind: Kind
    text: str


class ThinkingParser:
    """Feed text as it comes. Only thinking in front of the answer counts: a tag inside an answer is text.

    `opened`: the template wrote the opening tag, so the stream begins in the middle of thinking.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self._state: Literal["start", "thinking", "answer"] = "thinking" if opened else "start"
        self._held = ""
        self._trim = opened
        self._said_anything = False
        self._thought = opened

    @property
    def is_thinking(self) -> bool:
        return self._state == "thinking"

    def push(self, text: str) -> list[Piece]:
        """Take text; returns what is certain by now. What may yet become a tag is held back."""
        self._held += text
        pieces: list[Piece] = []
        while self._step(pieces):
            pass
        return pieces

    def flush(self) -> list[Piece]:
        """The end: what was held back is text after all."""
        held, self._held = self._held, ""
        return self._emit(held) if held else []

    def _step(self, pieces: list[Piece]) -> bool:
        """Handle the next tag or text that is certain; False when there is nothing more to do."""
        if self._state == "start":
            return self._start()
        tag = CLOSE if self._state == "thinking" or not self._thought else ""
        before, found, after = self._held.partition(tag) if tag else (self._held, "", "")
        if found:
            pieces += self._emit(before)
            if self._state == "answer":
                pieces.append(Piece("was thinking", ""))
            self._state, self._held, self._trim, self._thought = "answer", after, True, True
            return True
        certain = len(self._held) - (_possible_beginning(self._held, tag) if tag else 0)
        text, self._held = self._held[:certain], self._held[certain:]
        pieces += self._emit(text)
        return False

    def _start(self) -> bool:
        """Nothing but white space has come: is it an opening tag?"""
        text = self._held.lstrip()
        if text.startswith(OPEN):
            self._state, self._held, self._trim, self._thought = "thinking", text[len(OPEN) :], True, True
            return True
        if OPEN.startswith(text):
            return False
        self._state = "answer"
        return True

    def _emit(self, text: str) -> list[Piece]:
        """Empty lines next to a tag belong to the tag."""
        if self._trim:
            text = text.lstrip("\n")
            self._trim = not text
        return [Piece("thinking" if self._state == "thinking" else "answer", text)] if text else []


def _possible_beginning(text: str, tag: str) -> int:
    """How many characters at the end of `text` could be the beginning of `tag`."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)


class Thought(NamedTuple):
    """A whole message, taken apart."""

    thinking: str
    answer: str


def split_thinking(text: str) -> Thought:
    """Take a finished message apart; an opening tag that is missing is no obstacle."""
    parser = ThinkingParser()
    thinking, answer = "", ""
    for kind, part in [*parser.push(text), *parser.flush()]:
        if kind == "was thinking":
            thinking, answer = thinking + answer, ""
        elif kind == "thinking":
            thinking += part
        else:
            answer += part
    return Thought(thinking.rstrip(), answer)
