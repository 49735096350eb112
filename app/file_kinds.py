"""What a file that is no GGUF seems to be, by its first bytes, and what to do about it."""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ebbtide.app.safe_text import safe_line
from ebbtide.engine.errors import ModelError
from ebbtide.engine.sizes import format_bytes

MAGIC = b"GGUF"
HEAD_BYTES = 4096
_CONVERT = (
    "ebbtide reads GGUF: look for a GGUF of this model, or make one with llama.cpp's convert_hf_to_gguf.py."
)
_UNPACK = "Unpack it, and give the .gguf file inside."
_AGAIN = "Download it again, and compare its size with what the source says."
_WEB = "Download the file itself: the link to it, not to the page about it; some need a log-in or a token."


class Kind(NamedTuple):
    """`words` go on "it seems to be"; `remedy` is a sentence."""

    words: str
    remedy: str


_BEGINNINGS = (
    (b"\x1f\x8b", Kind("a gzip archive", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", Kind("a 7-Zip archive", _UNPACK)),
    (b"\xfd7zXZ\x00", Kind("an xz archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", Kind("a Zstandard archive", _UNPACK)),
    (b"\x80\x02", Kind("a PyTorch checkpoint (pickle)", _CONVERT)),
    (b"\x93NUMPY", Kind("a NumPy array", _CONVERT)),
    (b"\x89HDF", Kind("an HDF5 or Keras file", _CONVERT)),
    (b"%PDF", Kind("a PDF document", "Give the path of a .gguf file.")),
    *(
        (
            magic,
            Kind(
                "a GGML file of the time before GGUF", "Get a GGUF of this model: the old form is not read."
            ),
        )
        for magic in (b"lmgg", b"tjgg", b"fmgg", b"ggml", b"ggjt", b"ggmf")
    ),
)


def refuse_other_kinds(path: Path) -> None:
    """Raise ModelError for a file that is no GGUF, saying what it seems to be. One that is not there, or
    cannot be read, is left to whoever opens it.
    """
    try:
        if not path.is_file():
            return
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, ValueError):
        return
    if head.startswith(MAGIC):
        return
    name = safe_line(path.name)
    if not head:
        raise ModelError(f"{name} is empty", hint=_AGAIN)
    kind = kind_of(head, size, path.suffix.lower())
    raise ModelError(f"{name} is not a GGUF file: it seems to be {kind.words}", hint=kind.remedy)


def kind_of(head: bytes, size: int, ending: str = "") -> Kind:
    """Of a file that begins with `head`, not empty, has `size` bytes and this ending (".bin")."""
    for look in _LOOKS:
        if (kind := look(head, size, ending)) is not None:
            return kind
    known = next((kind for beginning, kind in _BEGINNINGS if head.startswith(beginning)), None)
    return known or Kind(
        "a file of another kind", "Give the path of a .gguf file; `ebbtide ls` lists models."
    )


def folder_kind(folder: Path) -> Kind:
    """Of a folder that was given in the place of a model file."""
    names = sorted(path.name for path in folder.iterdir())
    files = [name for name in names if name.endswith(".gguf")]
    if len(files) == 1:
        return Kind("a folder with one model in it", f"Give the file: {safe_line(str(folder / files[0]))}")
    if files:
        shown = ", ".join(safe_line(name) for name in files[:4]) + (", ..." if len(files) > 4 else "")
        return Kind("a folder with several models in it", f"Give one of its files: {shown}.")
    if any(name.endswith((".safetensors", ".pth", ".bin")) for name in names):
        return Kind("a model in the form of Transformers", _CONVERT)
    return Kind(
        "a folder without any .gguf file", "Give the path of a .gguf file; `ebbtide ls` lists models."
    )


def _safetensors(head: bytes, size: int, ending: str) -> Kind | None:
    """A length of 8 bytes, then that much JSON."""
    if len(head) < 9 or head[8:9] != b"{":
        return None
    (length,) = struct.unpack("<Q", head[:8])
    return Kind("a model in safetensors", _CONVERT) if length < max(size, 1 << 27) else None


def _zip(head: bytes, size: int, ending: str) -> Kind | None:
    if not head.startswith(b"PK\x03\x04"):
        return None
    if ending in (".pt", ".pth", ".bin", ".ckpt") or b"data.pkl" in head:
        return Kind("a PyTorch checkpoint", _CONVERT)
    return Kind("a ZIP archive", _UNPACK)


def _pointer(head: bytes, size: int, ending: str) -> Kind | None:
    if not head.startswith(b"version https://git-lfs"):
        return None
    match = re.search(rb"^size (\d+)$", head, re.MULTILINE)
    of = f" to a file of {format_bytes(int(match[1]))}" if match else ""
    return Kind(
        f"a Git LFS pointer{of}, not the file itself",
        "Run `git lfs pull` in that folder, or download the file.",
    )


def _page(head: bytes, size: int, ending: str) -> Kind | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<?xml", b"<!--")):
        return Kind("a web page", _WEB)
    if start.startswith(b"{"):
        return Kind("JSON: a server's answer, or a model's settings", _WEB)
    return None


def _holes(head: bytes, size: int, ending: str) -> Kind | None:
    """Some programs take the room first and fill it later."""
    if head.strip(b"\0"):
        return None
    return Kind("a download that was not finished: it begins with zeros", _AGAIN)


def _text(head: bytes, size: int, ending: str) -> Kind | None:
    """What the end of the head cuts in the middle of a character is text too."""
    try:
        text = head[: head.rfind(b"\n") + 1 or len(head)].decode()
    except UnicodeDecodeError:
        return None
    if any(ord(character) < 32 and character not in "\t\r\n\f" for character in text):
        return None
    return Kind("a text file", "Give the path of a .gguf file; `ebbtide ls` lists models.")


_LOOKS: tuple[Callable[[bytes, int, str], Kind | None], ...] = (
    _pointer,
    _page,
    _zip,
    _holes,
    _safetensors,
    _text,
)
