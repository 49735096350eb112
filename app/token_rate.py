"""How many tokens a text will be, before the engine has counted it: always shown with a `~`."""

import re

LETTERS_PER_TOKEN, CAPITALS_PER_TOKEN = 7, 3
"""Common words are one token, longer ones are cut; words in capitals are rare and cut smaller."""
FOREIGN_BYTES_PER_TOKEN = 2
"""Of letters outside of ASCII: Chinese 1.5, Russian 2.1 with a small vocabulary, more with a large one."""
SAMPLE_CHARACTERS, SAMPLES = 4096, 16
"""Of a longer text so many pieces of this length are looked at, evenly spread."""
LEAST_TOKENS = 50
"""A shorter prompt is mostly the template's own tokens and tells nothing."""
LIKELY = (0.4, 2.5)

_SMALL_WORD = re.compile(r"[A-Z]?[a-z]+")
_CAPITALS = re.compile(r"[A-Z]+(?![a-z])")
_FOREIGN = re.compile(r"[^\x00-\x7f]+")
_PIECE = re.compile(r"\d|[^\w\s\x80-\U0010ffff]+|_+|\s{2,}|\n|(?<=\d)\s|\s(?=\d)")
"""One token each with the starter's vocabulary: a digit, a run of signs, an indent, a space at a number."""


def usual_tokens(text: str) -> int:
    """About how many tokens `text` is with a usual vocabulary.

    With the starter's 49,152 tokens: numbers, logs, hexadecimal, Python, documentation within a tenth of what
    it is; dense C++ and JavaScript a tenth too low, Chinese a third.
    """
    if len(text) <= SAMPLES * SAMPLE_CHARACTERS:
        return _tokens(text)
    step = len(text) // SAMPLES
    sample = [text[start : start + SAMPLE_CHARACTERS] for start in range(0, SAMPLES * step, step)]
    return scaled(sum(map(_tokens, sample)), len(text), sum(map(len, sample)))


def scaled(tokens: int, whole: int, part: int) -> int:
    """Tokens of a whole, from those of a part of it; both measured alike."""
    return round(tokens * whole / part) if part else 0


def _tokens(text: str) -> int:
    words = sum(1 + (len(word) - 1) // LETTERS_PER_TOKEN for word in _SMALL_WORD.findall(text))
    capitals = sum(1 + (len(word) - 1) // CAPITALS_PER_TOKEN for word in _CAPITALS.findall(text))
    foreign = 0
    if not text.isascii():
        foreign = sum(len(letters.encode("utf-8", "replace")) for letters in _FOREIGN.findall(text))
    return words + capitals + len(_PIECE.findall(text)) + -(-foreign // FOREIGN_BYTES_PER_TOKEN)


class TokenRate:
    """What the loaded tokenizer made of the latest prompt that was long enough, against a usual one."""

    def __init__(self) -> None:
        self._share = 1.0

    def learn(self, usual: int, tokens: int) -> None:
        """A prompt of so many usual tokens had so many."""
        if tokens >= LEAST_TOKENS and usual and LIKELY[0] <= tokens / usual <= LIKELY[1]:
            self._share = tokens / usual

    def tokens(self, usual: int) -> int:
        return round(usual * self._share)
