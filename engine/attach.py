"""The door for viewers: find running engines, and read what they show. Imports no torch and no numpy."""

import contextlib
import socket
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
import psutil

from ebbtide.engine.errors import EngineDied
from ebbtide.engine.frames import Card, Frame, card_path, family, remove

MAX_FRAME_BYTES = 16 << 20
ANSWER_S = 1.0
"""A system takes a call for a process that listens at once, whatever that one does."""


def find_engines(folder: Path) -> list[Card]:
    """Cards of engines that run, by process id. What killed ones left behind is cleaned up."""
    _remove_orphans(folder)
    return sorted(_living(folder), key=lambda card: card.pid)


def _remove_orphans(folder: Path) -> None:
    """Of engines that were killed before their card was written, or while it was."""
    for path in (*folder.glob("*.sock"), *folder.glob("*.new")):
        is_named = path.stem.isdecimal() and not card_path(folder, int(path.stem)).exists()
        if is_named and not psutil.pid_exists(int(path.stem)):
            with contextlib.suppress(OSError):
                path.unlink()


def _living(folder: Path) -> Iterator[Card]:
    for path in folder.glob("*.json"):
        try:
            card = msgspec.json.decode(path.read_bytes(), type=Card)
        except (OSError, msgspec.MsgspecError):
            continue
        if path.stem == str(card.pid) and psutil.pid_exists(card.pid) and _listens(card):
            yield card
        else:
            remove(folder, card)


def _listens(card: Card) -> bool:
    """False where nobody does: the process is another one, which got the id of an engine that was killed."""
    if family() != "AF_UNIX":
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.settimeout(ANSWER_S)
        try:
            caller.connect(card.address)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except (OSError, ValueError):  # busy, or not for us
            return True
    return True


def users_of(folder: Path, model: Path) -> list[Card]:
    """The engines that run with this file."""
    return [card for card in find_engines(folder) if card.model and _is_same(Path(card.model), model)]


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # gone, or not to be looked at
        return one == other


def app_of(pid: int) -> int:
    """Process id of the app that started this engine; 0 where the system does not say."""
    try:
        return int(psutil.Process(pid).ppid())
    except (psutil.Error, OSError):
        return 0


def find_successor(folder: Path, app: int) -> Card | None:
    """The engine to look at once one of this app has ended: the app's next one, else the only one that runs.

    None: there is none, or several strangers, of which nobody has chosen one.
    """
    cards = find_engines(folder)
    of_app = [card for card in cards if app and app_of(card.pid) == app]
    wanted = of_app or cards
    return wanted[0] if len(wanted) == 1 else None


class Viewer:
    """A connection to one engine. Use as a context manager.

    Raises EngineDied where nobody listens any more; the card of such an engine is cleaned up.
    """

    def __init__(self, folder: Path, card: Card) -> None:
        self.pid = card.pid
        self._decoder = msgspec.msgpack.Decoder(Frame)
        try:
            self._connection: Connection[bytes, bytes] = Client(
                card.address, family(), authkey=bytes.fromhex(card.key)
            )
        except (OSError, EOFError, ValueError, AuthenticationError) as error:
            if isinstance(error, ConnectionRefusedError | FileNotFoundError):
                remove(folder, card)
            raise EngineDied(
                f"Engine {card.pid} does not answer ({error})", hint="Start ebbtide, then try again."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, timeout_s: float) -> Frame | None:
        """The next frame, or None after `timeout_s`. Raises EngineDied when the engine ends."""
        try:
            if not self._connection.poll(timeout_s):
                return None
            return self._decoder.decode(self._connection.recv_bytes(MAX_FRAME_BYTES))
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            raise EngineDied(f"Engine {self.pid} has ended", hint="Start ebbtide, then try again.") from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()
