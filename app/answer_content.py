"""An answer as data: what has come of it so far. Widgets read from it and can be made anew at any time."""

import time
from collections.abc import Callable

from ebbtide.app.thinking import Piece, ThinkingParser


class AnswerContent:
    """Thinking and answer, growing. `epoch` changes when text that was shown as answer was thinking."""

    def __init__(self, *, thinking_opened: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        self.thinking = ""
        self.answer = ""
        self.epoch = 0
        self.ended = False
        self.thinking_tokens = 0
        self.thinking_s = 0.0
        self._parser = ThinkingParser(opened=thinking_opened)
        self._now = now
        self._began_at: float | None = None
        self._tokens = 0

    def open_thinking(self) -> None:
        """Before anything has come: the template opened the thinking."""
        self._parser = ThinkingParser(opened=True)

    @classmethod
    def of(cls, text: str) -> "AnswerContent":
        """A finished answer. How long its thinking took is not known."""
        content = cls()
        content.push(text)
        content.end()
        content.thinking_s, content.thinking_tokens = 0.0, 0
        return content

    @property
    def is_thinking(self) -> bool:
        return self._parser.is_thinking and not self.ended

    def push(self, text: str, tokens: int = 0) -> None:
        """Take the next text, made from so many tokens."""
        if self._began_at is None:
            self._began_at = self._now()
        self._tokens += tokens
        self._take(self._parser.push(text))
        if self.is_thinking:
            self._measure()

    def end(self) -> None:
        """Nothing more will come."""
        if not self.ended:
            self._take(self._parser.flush())
            self.ended = True

    def become(self, other: "AnswerContent", *, goes_on: bool) -> None:
        """What another window has written by now."""
        if not other.answer.startswith(self.answer):
            self.epoch += 1
        self.thinking, self.answer, self.ended = other.thinking, other.answer, not goes_on

    def _take(self, pieces: list[Piece]) -> None:
        for kind, text in pieces:
            if kind == "was thinking":
                self.thinking, self.answer = self.thinking + self.answer, ""
                self.epoch += 1
                self._measure()
            elif kind == "thinking":
                self.thinking += text
                self._measure()
            else:
                self.answer += text

    def _measure(self) -> None:
        assert self._began_at is not None
        self.thinking_s, self.thinking_tokens = self._now() - self._began_at, self._tokens
