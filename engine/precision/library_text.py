"""Text that every machine with Python has: sources and documentation of its standard library.

A part of it, told by the names of the files alone, is held out: for measurements, never for calibration. It
is the part that the starter model was not trained on either (packaging/starter/sources.py).
"""

import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

HELD_OUT_ONE_IN = 16
LEAST_CHARS = 1000
"""Shorter files are mostly licence and imports."""


def is_held_out(name: str) -> bool:
    """True for about one name in 16, such as `stdlib/ast.py` or `topics/lambda`."""
    return name_hash(name) % HELD_OUT_ONE_IN == 0


def name_hash(name: str) -> int:
    """A number of 64 bits that is the same everywhere."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def library_texts(*, held_out: bool) -> tuple[list[str], list[str]]:
    """Code and prose, in a fixed order; either may be empty where Python came without it."""
    code = [text for name, text in _sources() if is_held_out(name) is held_out]
    prose = [text for name, text in _topics() if is_held_out(name) is held_out]
    return code, prose


def _sources() -> Iterator[tuple[str, str]]:
    """Top-level modules: packages hold tests and tables."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        try:
            text = path.read_text("utf-8", "replace")
        except OSError:
            continue
        if len(text) >= LEAST_CHARS:
            yield f"stdlib/{path.name}", text


def _topics() -> Iterator[tuple[str, str]]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems have it in a package of its own
        return
    for topic, text in sorted(topics.items()):
        if len(text) >= LEAST_CHARS:
            yield f"topics/{topic}", text
