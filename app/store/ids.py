"""Names for chats and numbers for messages, chosen without asking the database."""

import random
import time

ALPHABET = "bcdfghjkmnpqrstvwxz23456789"
"""No vowels, so that no word appears by chance, and nothing that is mistaken for something else."""
LENGTH = 6
TIME_BITS = 42
RANDOM_BITS = 21
"""Two processes that write in the same millisecond do not meet. Together they fit into SQLite's integers."""
_RANDOM = random.SystemRandom()


def now_ms() -> int:
    """Milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


def new_chat_id() -> str:
    """387 million possible names; the table refuses a second use."""
    return "".join(_RANDOM.choices(ALPHABET, k=LENGTH))


class MessageIds:
    """Rising numbers, also when the clock is set back."""

    def __init__(self) -> None:
        self._last = 0

    def next(self, after: int = 0) -> int:
        """A number larger than `after` and than all before."""
        drawn = (now_ms() % 2**TIME_BITS << RANDOM_BITS) | _RANDOM.getrandbits(RANDOM_BITS)
        self._last = max(drawn, self._last + 1, after + 1)
        return self._last
