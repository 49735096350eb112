"""Passages of tokens from texts: spread over all of them, and the same ones every time."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np

from ebbtide.engine.errors import UsageError

PART_CHARS = 8192
"""Texts are cut into such parts at the end of a line; each is a few passages long."""
TEXT_BYTES_LIMIT = 64 << 20
"""Of a longer file the beginning is used."""
Encode = Callable[[str], list[int]]


def read_text(path: Path) -> str:
    """The text of a file, or the first `TEXT_BYTES_LIMIT` bytes of it. Raises UsageError."""
    try:
        with path.open("rb") as stream:
            data = stream.read(TEXT_BYTES_LIMIT)
        if len(data) == TEXT_BYTES_LIMIT:
            data = data[: data.rfind(b"\n") + 1]
        text = data.decode("utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}", hint="Give a UTF-8 text file with --text."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text", hint="Give a UTF-8 text file with --text.") from error
    return text.removeprefix("\ufeff")


def passages(
    kinds: Sequence[Sequence[str]], encode: Encode, front: list[int], length: int, most_tokens: int
) -> list[list[int]]:
    """Passages of up to `length` ids with `front` before each, `most_tokens` in all.

    kinds: texts of each kind. They take turns, and of each the parts that are used are spread evenly, however
    few are wanted.
    """
    orders = [spread([part for text in texts for part in parts(text)]) for texts in kinds]
    found: list[list[int]] = []
    left = most_tokens
    for part in chain.from_iterable(zip_longest(*orders)):
        if part is None:
            continue
        for ids in _cut(encode(part), length - len(front)):
            passage = (front + ids)[:left]
            if len(passage) <= len(front):
                return found
            found.append(passage)
            left -= len(passage)
    return found


def _cut(ids: list[int], length: int) -> Iterator[list[int]]:
    """Equal pieces of up to `length`: a short rest would take as long as a whole one."""
    count = -(-len(ids) // length)
    for index in range(count):
        yield ids[index * len(ids) // count : (index + 1) * len(ids) // count]


def parts(text: str, size: int = PART_CHARS) -> Iterator[str]:
    """Pieces of up to `size` characters, cut behind a line where there is one; none of white space alone."""
    start = 0
    while start < len(text):
        end = min(start + size, len(text))
        if end < len(text):
            cut = text.rfind("\n", start, end)
            end = cut + 1 if cut > start else end
        if text[start:end].strip():
            yield text[start:end]
        start = end


def spread(items: Sequence[str]) -> list[str]:
    """In an order whose every beginning is spread evenly over all of them: that of the reversed bits."""
    bits = max(len(items) - 1, 1).bit_length()
    order = sorted(range(len(items)), key=lambda index: int(f"{index:0{bits}b}"[::-1], 2))
    return [items[index] for index in order]


def digest(found: Sequence[Sequence[int]]) -> str:
    """SHA-256 of passages: those of other texts, tokens or lengths have another."""
    sha = hashlib.sha256()
    for ids in found:
        sha.update(np.array([len(ids), *ids], "<i8").tobytes())
    return sha.hexdigest()
