"""Lets `ebbtide top` look at this engine from another terminal, read-only, at nobody's cost.

One thread waits for viewers and one serves each. They only ever send the latest frame: a viewer that is slow,
stopped or dead blocks its own thread and nothing else. What a viewer sends is read by nobody, except to prove
that it knows the key.
"""

import contextlib
import itertools
import secrets
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path

import msgspec

from ebbtide.engine.attach import find_engines
from ebbtide.engine.frames import FRAME_INTERVAL_S, Card, Frame, card_path, choose_address, family, remove
from ebbtide.engine.messages import Watch

MOST_VIEWERS = 8


class Endpoint:
    """Opens the socket and leaves the card; `close` takes both away.

    `watch` hears of viewers coming and going, on their threads.
    """

    def __init__(
        self, folder: Path, pid: int, frame: Callable[[], Frame], watch: Callable[[Watch], None]
    ) -> None:
        self._folder, self._frame, self._watch = folder, frame, watch
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        with contextlib.suppress(OSError):
            find_engines(folder)  # cleans up after those that were killed
        self._key = secrets.token_bytes(32)
        self.card = Card(pid, choose_address(folder, pid), self._key.hex())
        with contextlib.suppress(OSError):
            Path(self.card.address).unlink()  # left by a dead process that had the same id
        # No key for the listener itself: it would prove viewers one after the other, and one could stall all.
        self._listener = Listener(self.card.address, family())
        with contextlib.suppress(OSError):
            Path(self.card.address).chmod(0o600)
        try:
            self._write_card()
        except OSError:
            self._listener.close()
            raise
        self._names = itertools.count(1)
        self._seats = threading.BoundedSemaphore(MOST_VIEWERS)
        threading.Thread(target=self._accept, name="endpoint", daemon=True).start()

    def _write_card(self) -> None:
        path = card_path(self._folder, self.card.pid)
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        try:
            fresh.touch(mode=0o600)
            fresh.write_bytes(msgspec.json.encode(self.card))
            fresh.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise

    def uses(self, model: str) -> None:
        """Tell others which file this engine has open; empty: none."""
        self.card = msgspec.structs.replace(self.card, model=model)
        with contextlib.suppress(OSError):  # a full disk is no reason not to answer
            self._write_card()

    def _accept(self) -> None:
        while True:
            try:
                viewer = self._listener.accept()
            except OSError:
                return  # closed
            if not self._seats.acquire(blocking=False):
                viewer.close()
                continue
            name = f"top-{next(self._names)}"
            threading.Thread(target=self._serve, args=(viewer, name), name=name, daemon=True).start()

    def _serve(self, viewer: "Connection[bytes, bytes]", name: str) -> None:
        try:
            deliver_challenge(viewer, self._key)
            answer_challenge(viewer, self._key)
            self._show(viewer, name)
        except (OSError, EOFError, AuthenticationError):
            pass  # it left, had no business here, or only looked whether somebody listens
        finally:
            viewer.close()
            self._seats.release()

    def _show(self, viewer: "Connection[bytes, bytes]", name: str) -> None:
        """Frames until it leaves, which is an OSError."""
        self._watch(Watch(FRAME_INTERVAL_S, name))
        try:
            while True:
                viewer.send_bytes(msgspec.msgpack.encode(self._frame()))
                time.sleep(FRAME_INTERVAL_S)
        finally:
            self._watch(Watch(0, name))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.close()
        remove(self._folder, self.card)
