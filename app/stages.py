"""What a long piece of work is doing, in words: names that other parts give to stages of their progress."""

from ebbtide.app.safe_text import safe_line
from ebbtide.app.sentences import sentence
from ebbtide.engine.sizes import format_bytes

_WORDS = {
    "download": "Downloading the starter's base model",
    "verify": "Checking it",
    "extract": "Unpacking it",
    "expand": "Building the starter's experts",
}
_SHORT = {"Loading", "Preparing the card"}
LEAST_SHOWN_BYTES = 1 << 20
"""Totals below this are counts of something smaller; they are shown as a share only."""


def stage_words(stage: str) -> str:
    """The stage as a person reads it."""
    return _WORDS.get(stage) or sentence(safe_line(stage))


def is_short(stage: str) -> bool:
    """Whether it takes seconds, and a log can do without it."""
    return sentence(stage) in _SHORT


def of_total(total: int) -> str:
    """ " of 738 MiB", or nothing for a total that says nothing."""
    return f" of {format_bytes(total)}" if total >= LEAST_SHOWN_BYTES else ""
