"""The texts: where they come from, under which licence, and which are held out.

    python sources.py > held-out.txt

prints the held-out ones, for measurements that take any text.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, cast

HELD_OUT_ONE_IN = 16
SKIPPED = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "encodings",
    "pydoc_data",
    "turtledemo",
    "__pycache__",
}
PYTHON = f"Python {sys.version.split()[0]} standard library"
PERMISSIVE = ("mit", "bsd", "apache", "psf", "python software foundation", "isc")
DOCUMENTED_PACKAGES = {
    "numpy": "BSD-3-Clause",
    "click": "BSD-3-Clause",
    "textual": "MIT",
    "jinja2": "BSD-3-Clause",
}


class Text(NamedTuple):
    """One document. `name` decides the split: the same file is held out in every domain."""

    domain: str
    origin: str
    licence: str
    name: str
    text: str


def held_out(name: str, one_in: int = HELD_OUT_ONE_IN) -> bool:
    """True for about one name in `one_in`, by its hash alone."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % one_in == 0


def all_texts() -> Iterator[Text]:
    """Code and documentation found on this machine, in a fixed order."""
    for path, name in _python_files(Path(sysconfig.get_path("stdlib")), "stdlib"):
        source = _read(path)
        yield Text("code", PYTHON, "PSF-2.0", name, source)
        yield from _docstrings(source, PYTHON, "PSF-2.0", name)
    yield from _language_reference()
    for package, licence in DOCUMENTED_PACKAGES.items():
        yield from _package_docstrings(package, licence)
    yield from _package_descriptions()


def _language_reference() -> Iterator[Text]:
    from pydoc_data.topics import topics

    for topic, text in sorted(topics.items()):
        yield Text("documentation", f"{PYTHON}, pydoc topics", "PSF-2.0", f"topics/{topic}", text)


def _package_docstrings(package: str, licence: str) -> Iterator[Text]:
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return
    origin = f"{package} {distribution.version}, docstrings"
    for path, name in _python_files(Path(str(distribution.locate_file(package))), package):
        yield from _docstrings(_read(path), origin, licence, name)


def _package_descriptions() -> Iterator[Text]:
    """Project pages that installed packages carry, where the licence is a permissive one."""
    for distribution in sorted(metadata.distributions(), key=lambda found: found.name.lower()):
        about = cast(Message, distribution.metadata)
        licence = about.get("License-Expression") or about.get("License") or ""
        body = about.get_payload()
        short = licence.splitlines()[0][:60] if licence else ""
        if isinstance(body, str) and len(body) > 400 and any(word in short.lower() for word in PERMISSIVE):
            origin = f"{distribution.name} {distribution.version}, project description"
            yield Text("documentation", origin, short, f"description/{distribution.name}", body)


def _python_files(root: Path, label: str) -> Iterator[tuple[Path, str]]:
    for path in sorted(root.rglob("*.py")):
        relative = path.relative_to(root)
        if not SKIPPED.intersection(relative.parts) and not path.name.startswith("_sysconfigdata"):
            yield path, f"{label}/{relative.as_posix()}"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def _docstrings(source: str, origin: str, licence: str, name: str) -> Iterator[Text]:
    """All docstrings of a file in one document, each under the name of what it documents."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except SyntaxError:
        return
    parts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and len(docstring) > 80:
                title = getattr(node, "name", name)
                parts.append(f"{title}\n\n{docstring}")
    if parts:
        yield Text("documentation", origin, licence, name, "\n\n\n".join(parts))


def main() -> None:
    for text in all_texts():
        if held_out(text.name):
            sys.stdout.write(text.text.rstrip() + "\n\n")


if __name__ == "__main__":
    main()
