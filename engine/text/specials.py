"""Finding special tokens in text."""

import re
from collections.abc import Mapping


class SpecialTokens:
    """Splits text at given token texts: the leftmost first, the longest of those that start at one place."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        """`ids` maps token texts to tokens; empty texts are ignored."""
        self._ids = {text: token for text, token in ids.items() if text}
        self._lengths: dict[str, list[int]] = {}
        for first in self.first_characters:
            lengths = {len(text) for text in self._ids if text[0] == first}
            self._lengths[first] = sorted(lengths, reverse=True)
        starts = "".join(re.escape(first) for first in self._lengths)
        self._start = re.compile(f"[{starts}]") if starts else None

    @property
    def first_characters(self) -> frozenset[str]:
        """Every character that a special token can begin with."""
        return frozenset(text[0] for text in self._ids)

    def split(self, text: str) -> list[str | int]:
        """`text` as a list of special tokens (int) and the non-empty stretches between them (str)."""
        parts: list[str | int] = []
        done = 0
        for start in self.starts(text):
            if start < done or (length := self.length_at(text, start)) == 0:
                continue
            if start > done:
                parts.append(text[done:start])
            done = start + length
            parts.append(self._ids[text[start:done]])
        return [*parts, text[done:]] if done < len(text) else parts

    def starts(self, text: str) -> list[int]:
        """Every place where a special token might begin, by its first character."""
        return [match.start() for match in self._start.finditer(text)] if self._start else []

    def length_at(self, text: str, start: int) -> int:
        """Length of the longest special token that begins at `start`, 0 if there is none."""
        lengths = self._lengths.get(text[start], [])
        return next((n for n in lengths if text[start : start + n] in self._ids), 0)
