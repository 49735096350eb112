"""How many tokens a text will be, before the engine has read it: always shown with a `~`."""

USUAL_BYTES_PER_TOKEN = 3.3
"""With the starter's vocabulary of 49,152 tokens: documentation 3.8, Python 3.6, C++ and tests 3.0, lines
full of numbers 2.1 (each digit is a token).
"""
LEAST_TOKENS = 50
"""A shorter prompt is mostly the template's own tokens and tells nothing."""
LIKELY = (1.5, 8.0)


def size_of(text: str) -> int:
    """Bytes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class TokenRate:
    """Bytes per token, as the loaded tokenizer made of the latest prompt that was long enough."""

    def __init__(self) -> None:
        self._bytes_per_token = USUAL_BYTES_PER_TOKEN

    def learn(self, size_bytes: int, tokens: int) -> None:
        """A prompt of so many bytes had so many tokens."""
        if tokens >= LEAST_TOKENS and LIKELY[0] <= size_bytes / tokens <= LIKELY[1]:
            self._bytes_per_token = size_bytes / tokens

    def tokens(self, size_bytes: int) -> int:
        return round(size_bytes / self._bytes_per_token)
