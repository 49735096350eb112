"""What `ebbtide top` gets: the latest of every kind of event in one frame; and where engines are found.

An engine that may be attached to leaves a card, `PID.json`, in a folder that only its user can enter. The
card names the address of a local socket (a pipe on Windows) and the key that both sides have to know.
"""

import contextlib
import os
import sys
from pathlib import Path

import msgspec

from ebbtide.engine.messages import Decision, Finished, Loaded, Machine, Residency, Snapshot

ENDPOINT_VARIABLE = "EBBTIDE_ENDPOINT_FOLDER"
"""Tells an engine where to leave its card; without it, nobody can attach."""
LONGEST_ADDRESS = 100
"""A Unix socket's path has 108 bytes on Linux, 104 on macOS, its end included."""
FRAME_INTERVAL_S = 0.25
DECISIONS_KEPT = 64


class Frame(msgspec.Struct, frozen=True):
    """One moment of an engine; what it has not said yet is None."""

    pid: int
    at: float
    """Seconds since 1970."""
    loaded: Loaded | None = None
    snapshot: Snapshot | None = None
    finished: Finished | None = None
    residency: Residency | None = None
    machine: Machine | None = None
    decisions: list[Decision] = []


class Card(msgspec.Struct, frozen=True):
    """How to reach an engine. `key` is hexadecimal; `model` is the file that it uses, empty for none."""

    pid: int
    address: str
    key: str
    model: str = ""


def card_path(folder: Path, pid: int) -> Path:
    return folder / f"{pid}.json"


def choose_address(folder: Path, pid: int) -> str:
    """A path in `folder`, or in a fresh private folder where that would be too long for a socket."""
    if sys.platform == "win32":
        return rf"\\.\pipe\ebbtide-{pid}"
    path = folder / f"{pid}.sock"
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        return str(path)
    import tempfile  # not needed by the app, which shares this module

    return str(Path(tempfile.mkdtemp(prefix="ebbtide-", dir="/tmp")) / f"{pid}.sock")


def family() -> str:
    return "AF_PIPE" if sys.platform == "win32" else "AF_UNIX"


def remove(folder: Path, card: Card) -> None:
    """Take away an engine's card and socket. Nothing else: the address must be one that it chose itself."""
    socket = Path(card.address)
    own_folder = socket.parent.name.startswith("ebbtide-") and socket.parent != folder
    with contextlib.suppress(OSError):
        card_path(folder, card.pid).unlink()
    if socket.name != f"{card.pid}.sock" or not (own_folder or socket.parent == folder):
        return
    with contextlib.suppress(OSError):
        socket.unlink()
    if own_folder:
        with contextlib.suppress(OSError):
            socket.parent.rmdir()
