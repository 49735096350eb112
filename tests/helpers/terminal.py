"""The whole program in a pseudo-terminal: what it writes, byte for byte, and how it leaves the terminal."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.helpers import fake_ebbtide
from tests.helpers.fake_engine import Script
from tests.helpers.waiting import wait_until

RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1000l", b"\x1b[?2004l")
"""Leave the alternate screen, show the cursor, mouse off, bracketed paste off."""
_STRING_SEQUENCE = re.compile(rb"\x1b[\]PX^_](.*?)(?:\x07|\x1b\\)", re.DOTALL)


class Terminal:
    """`ebbtide ARGUMENTS` with the scripted engine, on a terminal of its own. Use as a context manager."""

    def __init__(
        self,
        script: Script,
        *arguments: str,
        rows: int = 30,
        columns: int = 100,
        real: bool = False,
        program: str = fake_ebbtide.__file__,
        errors: Path | None = None,
    ) -> None:
        """`real`: with the real engine instead. `errors`: a file for standard error."""
        scripted = [program, msgspec.json.encode(script).decode()]
        self.command = [sys.executable, *(["-m", "ebbtide.app"] if real else scripted), *arguments]
        self._size = struct.pack("HHHH", rows, columns, 0, 0)
        self._chunks: list[bytes] = []
        self._errors = errors

    def __enter__(self) -> "Terminal":
        self._ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, self._size)
        self.before = termios.tcgetattr(self.theirs)
        root = Path(fake_ebbtide.__file__).parents[2]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*sys.path, str(root)]),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
        }
        with self._errors.open("wb") if self._errors is not None else contextlib.nullcontext() as errors:
            self.process = subprocess.Popen(
                self.command,
                stdin=self.theirs,
                stdout=self.theirs,
                stderr=self.theirs if errors is None else errors,
                env=environment,
                start_new_session=True,
            )
        self._done = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self._done.set()
        self._reader.join()
        os.close(self._ours)
        os.close(self.theirs)

    def _read(self) -> None:
        while not self._done.is_set():
            ready, _, _ = select.select([self._ours], [], [], 0.05)
            if ready:
                try:
                    self._chunks.append(os.read(self._ours, 65536))
                except OSError:
                    return

    @property
    def output(self) -> bytes:
        """All that was written so far."""
        return b"".join(self._chunks)

    def send(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def paste(self, text: str) -> None:
        self.send(f"\x1b[200~{text}\x1b[201~")

    def wait_for(self, *texts: str, after: int = 0) -> None:
        """Until all of them have been written, beyond the first `after` bytes."""
        for text in texts:
            wanted = text.encode()
            with self._shown_if_it_fails(after):
                wait_until(lambda wanted=wanted: wanted in self.output[after:], f"{text!r} on the terminal")  # type: ignore[misc]

    @contextlib.contextmanager
    def _shown_if_it_fails(self, after: int) -> Iterator[None]:
        """A failure tells what was written instead, and whether the program was still there."""
        try:
            yield
        except AssertionError as error:
            error.add_note(f"exit code {self.process.poll()}; written: {self.output[after:][-6000:]!r}")
            raise

    def wait_for_end(self) -> int:
        """Until the program has ended and all it wrote has been read; returns its exit code."""
        wait_until(lambda: self.process.poll() is not None, "the end of the program")
        wait_until(lambda: not select.select([self._ours], [], [], 0.1)[0], "the end of its output")
        assert self.process.returncode is not None
        return self.process.returncode

    def is_as_before(self) -> bool:
        """Whether the line's own modes (echo, line by line) are those from before the start."""
        return termios.tcgetattr(self.theirs)[:4] == self.before[:4]


def string_sequences(output: bytes) -> Sequence[bytes]:
    """The contents of OSC, DCS and the like: titles, clipboards, hyperlinks."""
    return _STRING_SEQUENCE.findall(output)
