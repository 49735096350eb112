"""Large pastes stand in the prompt as a chip, `[pasted 1,204 lines]`, and are put back in when it is sent.

The editor widget needs about a second for each pasted megabyte; a chip costs nothing and can be read.
"""

from collections.abc import Sequence

from ebbtide.app.clipboard import amount_of

LARGE_LINES, LARGE_CHARACTERS = 12, 2_000
MOST_TYPED = 20_000
"""Nobody types more: a draft that an older version kept has no marks of its pastes."""


class Pastes:
    """The texts behind the chips of one prompt."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """The chip that stands for `text`, or the text itself if it is small."""
        if len(text) <= LARGE_CHARACTERS and text.count("\n") < LARGE_LINES:
            return text
        for chip, known in self._texts.items():
            if known == text:
                return chip
        name, number = f"pasted {amount_of(text)}", 1
        while (chip := f"[{name}]" if number == 1 else f"[{name} ({number})]") in self._texts:
            number += 1
        self._texts[chip] = text
        return chip

    def fold(self, text: str) -> str:
        """`text` as it was written: a chip for each paste in it that is known; else as `collapse`."""
        for chip, known in sorted(self._texts.items(), key=lambda entry: -len(entry[1])):
            text = text.replace(known, chip)
        return self.collapse(text)

    def parts(self, text: str) -> list[str]:
        """`text` in order: what was typed, and each paste that a chip in it stands for, as it is kept. A chip
        that was changed by hand is only text.
        """
        if not self._texts or "[pasted " not in text:
            return [text]
        parts, at = [], 0
        while at < len(text):
            start = text.find("[pasted ", at)
            end = text.find("]", start) + 1
            if start < 0 or end <= 0:
                break
            parts += [text[at:start], self._texts.get(text[start:end], text[start:end])]
            at = end
        return [*parts, text[at:]]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where the pastes of `text` stand in what `expand` makes of it: (start, end) in characters."""
        spans, at = [], 0
        for number, part in enumerate(self.parts(text)):
            if number % 2 and part in self._texts.values():
                spans.append((at, at + len(part)))
            at += len(part)
        return spans

    def with_chips(self, text: str, spans: Sequence[tuple[int, int]]) -> str:
        """Undo `expand`, also in another process: what is typed is typed again, each paste is a chip."""
        pieces, at = [], 0
        for start, end in spans:
            pieces += [text[at:start], self.collapse(text[start:end])]
            at = end
        rest = text[at:]
        return "".join([*pieces, rest if len(rest) <= MOST_TYPED else self.collapse(rest)])

    def expand(self, text: str) -> str:
        """`text` with what the chips in it stand for."""
        return "".join(self.parts(text))

    def chip_before(self, text: str) -> str:
        """The chip that `text` ends with, or an empty string: one backspace removes it whole."""
        return next((chip for chip in self._texts if text.endswith(chip)), "")
