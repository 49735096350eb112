"""`@path` in a question: the file's text is sent along, or the file is refused by name."""

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ebbtide.app.safe_text import safe_line
from ebbtide.engine.errors import UsageError
from ebbtide.engine.sizes import format_bytes

MOST_BYTES = 1 << 20

_MENTION = re.compile(r'(?<![^\s(\[])@(?:"([^"\n]+)"|([^\s"]+))')
_LIKE_A_FILE = re.compile(r"[\w./~ +-]*(?:/[\w. +-]+|\w\.[A-Za-z]\w{0,4})")
"""Short endings only: `@pytest.fixture` and `@app.route("/")` are code."""
_PUNCTUATION = ".,;:!?)]}'"


class Mention(NamedTuple):
    """A file that a text names."""

    path: Path
    name: str
    """As it was written."""


def find_mentions(text: str, folder: Path) -> list[Mention]:
    """The files named in `text`, each once. `@name` without such a file is only text."""
    found: dict[Path, Mention] = {}
    for match in _MENTION.finditer(text):
        for name in _readings(match.group(1) or match.group(2), quoted=match.group(1) is not None):
            path = _existing(folder, name)
            if path is not None:
                found.setdefault(path, Mention(path, name))
                break
    return list(found.values())


def missing_files(text: str, folder: Path) -> list[str]:
    """Names behind an @ that look like a file (a folder in front, or an ending as .py) and are none here."""
    names = []
    for match in _MENTION.finditer(text):
        readings = list(_readings(match.group(1) or match.group(2), quoted=match.group(1) is not None))
        if not any(_existing(folder, name) for name in readings) and _LIKE_A_FILE.fullmatch(readings[-1]):
            names.append(readings[-1])
    return list(dict.fromkeys(names))


def _readings(name: str, *, quoted: bool) -> Iterator[str]:
    """The name as it stands, then without the punctuation of the sentence."""
    yield name
    while not quoted and name and name[-1] in _PUNCTUATION:
        name = name[:-1]
        yield name


def _existing(folder: Path, name: str) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return path if name.strip("./~") and path.exists() else None
    except (OSError, RuntimeError, ValueError):
        return None


def read_text_file(path: Path, name: str) -> str:
    """The text of a file. Raises UsageError naming it when it is no text, too large, or not readable."""
    shown = safe_line(name)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise UsageError(f"@{shown} is {kind}", hint="Name a text file.")
        if status.st_size > MOST_BYTES:
            size = format_bytes(status.st_size)
            raise UsageError(f"@{shown} has {size}; at most {format_bytes(MOST_BYTES)} are sent", hint=_PASTE)
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"@{shown} cannot be read: {error.strerror}", hint=_LEAVE_OUT) from error
    try:
        if b"\0" in data:
            raise UsageError(f"@{shown} is binary", hint=_LEAVE_OUT)
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"@{shown} is not text in UTF-8", hint=_LEAVE_OUT) from error


_LEAVE_OUT = "Leave it out, or write the name without the @."
_PASTE = "Paste the part that matters."
_NO_SHELL = "Paste what it prints, or name a file with @; with a space in front this is asked as it is."


def with_files(text: str, folder: Path) -> str:
    """`text` followed by the files it names.

    Raises UsageError for one that cannot be sent, and for `!ls`, which other programs would run.
    """
    if re.match(r"!\s?\w", text):
        raise UsageError("ebbtide runs no shell commands", hint=_NO_SHELL)
    parts = [text]
    for mention in find_mentions(text, folder):
        content = read_text_file(mention.path, mention.name)
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", content)), default=0))
        end = "" if content.endswith("\n") or not content else "\n"
        parts.append(around_file(mention, fence, f"{content}{end}"))
    return "\n\n".join(parts)


def around_file(mention: Mention, fence: str = "```", content: str = "") -> str:
    """A file as the model sees it; without `content`, what is added to it."""
    language = mention.path.suffix.lstrip(".")
    return f"File {mention.name}:\n{fence}{language}\n{content}{fence}"


class SentFile(NamedTuple):
    """A file that stands in a question, as `with_files` has put it there."""

    name: str
    content: str


_HEAD = re.compile(r"\n\nFile ([^\n]+):\n(`{3,})[^`\n]*\n")


def split_files(text: str) -> tuple[str, list[SentFile]]:
    """Undo `with_files`: what was written, and the files behind it."""
    files: list[SentFile] = []
    start, head = len(text), _HEAD.search(text)
    while head is not None:
        start = start if files else head.start()
        fence = head.group(2)
        closing = text.find(fence, head.end())
        if closing < 0:
            return text, []
        files.append(SentFile(head.group(1), text[head.end() : closing]))
        end = closing + len(fence)
        if end == len(text):
            return text[:start], files
        head = _HEAD.match(text, end)
        if head is None:  # a block in the middle was written by the person
            files, head = [], _HEAD.search(text, end)
    return text, []
