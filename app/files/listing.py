"""The files of a project, without those that .gitignore files leave out."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MOST_FILES = 20_000
"""Beyond that a folder is no project, and a walk would take long."""
IGNORE_FILE = ".gitignore"


class ListedFile(NamedTuple):
    """`path` is relative to the folder that was listed, with slashes."""

    path: str
    size_bytes: int


class _Rules(NamedTuple):
    """One ignore file: its patterns count relative to `folder`."""

    folder: Path
    patterns: "GitIgnoreSpec"


def list_files(folder: Path, most: int = MOST_FILES) -> list[ListedFile]:
    """Files below `folder`, nearest first; what cannot be read is not there."""
    found: list[ListedFile] = []
    for entry, path in _walk(folder, _rules_above(folder)):
        try:
            size = entry.stat().st_size
        except OSError:
            continue
        found.append(ListedFile(path.relative_to(folder).as_posix(), size))
        if len(found) >= most:
            break
    return found


def _walk(top: Path, rules: list[_Rules]) -> Iterator[tuple["os.DirEntry[str]", Path]]:
    """Breadth first, so that a limit cuts off what is deep."""
    waiting = [(top, rules)]
    for folder, above in waiting:
        here = [*above, *_rules_of(folder)]
        for entry in _entries(folder):
            path = folder / entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git" or _is_ignored(path, is_folder, here):
                continue
            if is_folder:
                waiting.append((path, here))
            elif entry.is_file():
                yield entry, path


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_ignored(path: Path, is_folder: bool, rules: list[_Rules]) -> bool:
    """The nearest ignore file that says anything decides, as in git."""
    for rule in reversed(rules):
        name = path.relative_to(rule.folder).as_posix() + ("/" if is_folder else "")
        verdict = rule.patterns.check_file(name).include
        if verdict is not None:
            return verdict
    return False


def _rules_above(folder: Path) -> list[_Rules]:
    """Rules of the repository that `folder` is part of, from its root down to the parent."""
    above = list(folder.parents)
    root = next((parent for parent in [folder, *above] if (parent / ".git").exists()), None)
    if root is None:
        return []
    excluded = _read_rules(root / ".git" / "info" / "exclude", root)
    between = [parent for parent in reversed(above) if parent == root or root in parent.parents]
    return [*excluded, *(rule for parent in between for rule in _rules_of(parent))]


def _rules_of(folder: Path) -> list[_Rules]:
    return _read_rules(folder / IGNORE_FILE, folder)


def _read_rules(path: Path, folder: Path) -> list[_Rules]:
    from pathspec import GitIgnoreSpec  # after the first paint

    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
        return [_Rules(folder, GitIgnoreSpec.from_lines(lines))]
    except (OSError, ValueError):
        return []
