"""How set-up shows that it is alive: which step of how many, since when, and what it is doing.

On a terminal the step's line is drawn again each second; elsewhere, as in a log, it is said every 20 seconds.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

TERMINAL_S, LOG_S = 1.0, 20.0
LEAST_TOLD_S = 1.0
UNKNOWN_COLUMNS = 80
CLEAR = "\r \x1b[J\r"
"""The cursor waits at the start of the step's line, so that all of it is wiped also where a terminal that got
narrower has broken it into several. The space: tmux keeps a copy of what is wiped from the very corner."""


def duration(seconds: float) -> str:
    """ "34 s", "2 min 5 s"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Progress:
    """Steps of one set-up, one after the other. `total` = how many there will be."""

    def __init__(
        self, total: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.total, self.done = total, 0
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._step_began = 0.0
        self._title = self._detail = ""
        self._writing = threading.RLock()

    @property
    def stream(self) -> TextIO:
        """Asked for at every line: whoever takes standard error meanwhile gets it."""
        return self._stream or sys.stderr

    @property
    def is_terminal(self) -> bool:
        return self.stream.isatty()

    def say(self, text: str) -> None:
        """A line that stays; the step's own is drawn below it again."""
        with self._writing:
            self._write(f"{CLEAR if self._is_drawn else ''}ebbtide: {text}\n")
            if self._is_drawn:
                self.tick()

    def detail(self, text: str) -> None:
        """What the step is doing now, shown at the next drawing."""
        self._detail = text

    @contextmanager
    def step(self, title: str, expected: str = "") -> Iterator[None]:
        """Tell of one step: what it is, how long it usually takes, how far it is, and how long it took."""
        self.done += 1
        self.say(f"{self._number}{title}{f' ({expected})' if expected else ''}")
        self._title, self._detail, self._step_began = title, "", self._clock()
        over = threading.Event()
        ticker = threading.Thread(target=self._run, args=(over,), name="progress", daemon=True)
        ticker.start()
        try:
            yield
        finally:
            over.set()
            ticker.join()
            with self._writing:
                if self._is_drawn:
                    self._write(CLEAR)
                self._title = ""
        seconds = self._clock() - self._step_began
        if seconds >= LEAST_TOLD_S:
            self.say(f"  done in {duration(seconds)}")

    def end(self) -> None:
        """The sum of all."""
        self.say(f"set-up complete in {duration(self._clock() - self._began)}")

    def tick(self) -> None:
        """Draw the step's line, or say it where lines stay."""
        with self._writing:
            if not self._title:
                return
            since = duration(self._clock() - self._step_began)
            doing = f": {self._detail}" if self._detail else ""
            if not self.is_terminal:
                self._write(f"ebbtide:   {since} so far{doing}\n")
                return
            line = f"ebbtide:   {self._title}, {since}{doing}"
            width = self._columns() - 1
            self._write(CLEAR + (line if len(line) <= width else f"{line[: width - 1]}…") + "\r")

    def _columns(self) -> int:
        """Of the terminal that is written to, which need not be that of standard output."""
        try:
            return os.get_terminal_size(self.stream.fileno()).columns or UNKNOWN_COLUMNS
        except (OSError, ValueError):
            return UNKNOWN_COLUMNS

    @property
    def _is_drawn(self) -> bool:
        return bool(self._title) and self.is_terminal

    @property
    def _number(self) -> str:
        return f"step {self.done} of {self.total}: " if self.total > 1 else ""

    def _run(self, over: threading.Event) -> None:
        with suppress(OSError, ValueError):  # nobody listens any more, and the work goes on
            while not over.wait(TERMINAL_S if self.is_terminal else LOG_S):
                self.tick()

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
