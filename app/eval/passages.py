"""Texts cut into passages, each scored from a fresh start."""

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from ebbtide.engine.errors import UsageError

PASSAGE_CHARS = 2048
"""About 500 to 700 tokens of English or code."""


def read_text(path: Path) -> str:
    """The file's text. Raises UsageError when it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="Give a UTF-8 text file with --text."
        ) from error


def split_passages(text: str, size: int = PASSAGE_CHARS) -> list[str]:
    """Pieces of about `size` characters, cut after a line or a word where there is one; nothing is lost."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = min(start + size, len(text))
        if end < len(text):
            cut = max(text.rfind("\n", start, end), text.rfind(" ", start, end))
            end = cut + 1 if cut > start else end
        pieces.append(text[start:end])
        start = end
    return _without_scraps([piece for piece in pieces if piece.strip()], size // 8)


def _without_scraps(pieces: list[str], least: int) -> list[str]:
    """A short last piece goes to the one before it: a single token cannot be scored."""
    if len(pieces) > 1 and len(pieces[-1]) < least:
        return [*pieces[:-2], pieces[-2] + pieces[-1]]
    return pieces


def in_turns(texts: list[str], size: int = PASSAGE_CHARS) -> Iterator[str]:
    """Passages of many texts: one of each, then another of each, each text's from its middle on, so that few
    passages are of many texts, and not of their beginnings.
    """
    each = [split_passages(text, size) for text in texts]
    turned = [pieces[len(pieces) // 2 :] + pieces[: len(pieces) // 2] for pieces in each]
    for row in zip_longest(*turned):
        yield from (piece for piece in row if piece is not None)
