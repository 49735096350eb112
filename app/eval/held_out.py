"""Held-out text that every machine has: sources and documentation of Python's standard library.

Held out is what the starter was not trained on (packaging/starter/sources.py has the same rule): about one
file in sixteen, told by its name alone.
"""

import ast
import sysconfig
import warnings
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

from ebbtide.app.eval.passages import PASSAGE_CHARS, in_turns
from ebbtide.engine.errors import UsageError
from ebbtide.engine.precision.library_text import LEAST_CHARS, is_held_out, name_hash

SKIPPED = {"test", "tests", "idle_test", "site-packages", "encodings", "pydoc_data", "turtledemo"}


def held_out_passages(size: int = PASSAGE_CHARS) -> list[str]:
    """Passages of about `size` characters, of code and of prose in turns; the same on every machine with the
    same Python.

    Prose is documentation, and the docstrings of modules whose code is not taken. Raises UsageError where
    Python came without either.
    """
    files = sorted(_sources(), key=lambda file: name_hash(file[0]))
    code = [text for _, text in files[::2]]
    prose = [*_topics(), *filter(None, (_docstrings(text) for _, text in files[1::2]))]
    pairs = zip_longest(in_turns(code, size), in_turns(prose, size))
    passages = [passage for passage in chain.from_iterable(pairs) if passage is not None]
    if not passages:
        raise UsageError("This Python came without its sources and documentation.", hint="Give --text FILE.")
    return passages


def _sources() -> Iterator[tuple[str, str]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        name = f"stdlib/{relative.as_posix()}"
        if SKIPPED.intersection(relative.parts) or not is_held_out(name):
            continue
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if len(text) >= LEAST_CHARS:
            yield name, text


def _topics() -> list[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems have it in a package of its own
        return []
    return [text for topic, text in sorted(topics.items()) if is_held_out(f"topics/{topic}")]


def _docstrings(source: str) -> str:
    """All longer docstrings of a file, one behind the other."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return ""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return "\n\n".join(text for text in found if text and len(text) > 80)
