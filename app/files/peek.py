"""What the beginning of a file says, without reading all of it: whether it is text, and what it will cost."""

import stat
from pathlib import Path
from typing import NamedTuple

from ebbtide.app.files.mentions import MOST_BYTES
from ebbtide.app.token_rate import scaled, usual_tokens

HEAD_BYTES = 8192
MOST_KEPT = 2000
"""Heads are forgotten all at once when there are more."""
_BINARY = """
7z a avi avif bin bmp bz2 class db dll dmg doc docx dylib eot exe flac gguf gif gz heic ico iso jar jpeg jpg
lib lz4 m4a mkv mov mp3 mp4 npy npz o obj odt ogg onnx otf pack pdf pickle pkl png ppt pptx pt pth pyc pyd rar
safetensors so sqlite sqlite3 tar tgz tif tiff ttf war wasm wav webm webp whl woff woff2 xls xlsx xz zip zst
"""
BINARY_ENDINGS = frozenset(f".{name}" for name in _BINARY.split())
"""Of files that are never text: these are not even opened."""


class _Head(NamedTuple):
    """`state` tells two states of the file apart."""

    state: tuple[int, int, int]
    is_text: bool
    usual_tokens: int
    """Of the whole file, judged by its head."""


class Peeks:
    """Remembers what it has seen until the file changes. `opened` counts how many files were read."""

    def __init__(self) -> None:
        self.opened = 0
        self._heads: dict[Path, _Head] = {}
        self._texts: dict[Path, tuple[tuple[int, int, int], str]] = {}

    def is_text(self, path: Path) -> bool:
        """Whether it may be text: no known ending of other files, no NUL in its head."""
        if path.suffix.lower() in BINARY_ENDINGS:
            return False
        head = self._head(path)
        return head is not None and head.is_text

    def usual_tokens(self, path: Path) -> int:
        """About; 0 for what cannot be read."""
        head = self._head(path)
        return head.usual_tokens if head is not None else 0

    def text(self, path: Path, most_bytes: int = MOST_BYTES) -> str | None:
        """All of a text file that is not larger; None for any other."""
        state = _state(path)
        if state is None or state[1] > most_bytes or not self.is_text(path):
            return None
        known = self._texts.get(path)
        if known is None or known[0] != state:
            try:
                known = state, path.read_bytes().decode("utf-8-sig")
            except (OSError, UnicodeDecodeError):
                return None
            if sum(len(text) for _, text in self._texts.values()) > 8 * MOST_BYTES:
                self._texts.clear()
            self._texts[path] = known
        return known[1]

    def _head(self, path: Path) -> _Head | None:
        state = _state(path)
        known = self._heads.get(path)
        if state is None or (known is not None and known.state == state):
            return known if state is not None else None
        if len(self._heads) >= MOST_KEPT:
            self._heads.clear()
        self.opened += 1
        try:
            with path.open("rb") as file:
                data = file.read(HEAD_BYTES)
        except OSError:
            return None
        text = data.decode("utf-8", "replace")
        tokens = scaled(usual_tokens(text), state[1], len(data))
        head = self._heads[path] = _Head(state, b"\0" not in data, tokens)
        return head


def _state(path: Path) -> tuple[int, int, int] | None:
    """None for what is not there, or no regular file: reading a pipe would wait for a writer."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None
