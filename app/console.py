"""Standard error for people: two-line errors, notes, progress. Standard output is left to the answer."""

import os
import sys
import time
from types import TracebackType
from typing import ClassVar, Self, TextIO

from ebbtide.app.folded import UNKNOWN_COLUMNS, columns_of, write_folded
from ebbtide.app.progress_bar import bar_line, shortened
from ebbtide.app.safe_text import safe, safe_line
from ebbtide.app.sentences import in_two_lines
from ebbtide.app.stages import Pace, is_short, of_total, stage_words
from ebbtide.engine.errors import EbbtideError

PROGRAM = "ebbtide: "
WIPE = "\r \x1b[J\r"
"""The cursor waits at the start of the bar: a terminal that gets narrower and breaks the bar into several
lines keeps it there, so that all of them are wiped. The space: tmux keeps a copy of what is wiped from the
very corner of the screen."""
REDRAW_S = 0.1
LINE_STEP, LINE_S = 0.1, 1.0
"""Without a terminal, one line for each tenth of a stage, and at most one a second."""


def is_dumb() -> bool:
    """The terminal understands no sequences, as that of an editor; it says so itself."""
    return os.environ.get("TERM", "").strip().lower() == "dumb"


def tell(text: str) -> None:
    """Lines of an answer on standard output, for people."""
    ProgressPrinter.wipe_shown()
    write_folded(sys.stdout, text)


def note(text: str) -> None:
    """One line of information."""
    ProgressPrinter.wipe_shown()
    write_folded(sys.stderr, safe_line(text))


def print_error(error: EbbtideError, detail: str = "") -> None:
    """One line that says what, one that says what to do, and with --debug the detail."""
    ProgressPrinter.wipe_shown()
    if detail:
        print(safe(detail).rstrip(), file=sys.stderr)
    print_lines(*in_two_lines(error).split("\n"))


def print_lines(what: str, to_do: str) -> None:
    """Both lines of an error, as all commands have them."""
    ProgressPrinter.wipe_shown()
    write_folded(sys.stderr, f"{PROGRAM}{what}", hang=len(PROGRAM))
    if to_do:
        write_folded(sys.stderr, f"  {to_do}")


class ProgressPrinter:
    """A bar on a terminal, a few plain lines elsewhere. Use as a context manager.

    Stages that take seconds are not told where nobody looks: they would only fill a log.
    """

    _shown_one: ClassVar["ProgressPrinter | None"] = None
    """Whose bar is on the screen."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._watched = self._stream.isatty()
        self._terminal = self._watched and not is_dumb()
        self._pace = Pace()
        self._stage = ""
        self._shown = 0.0
        self._drawn_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if ProgressPrinter._shown_one is self:
            self.wipe_shown()

    @classmethod
    def wipe_shown(cls) -> None:
        """Take away the bar, if there is one, before something else is written."""
        shown, cls._shown_one = cls._shown_one, None
        if shown is not None:
            shown._write(WIPE)

    def update(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` bytes; a total of 0 means: not known."""
        share = min(done / total, 1.0) if total > 0 else 0.0
        fresh = stage != self._stage
        if fresh:
            self._stage, self._shown, self._drawn_at = stage, 0.0, 0.0
        left = self._pace.take(stage, done, total)
        if self._terminal:
            self._draw(stage, share, total, left)
        elif (self._watched or not is_short(stage)) and (fresh or self._worth_a_line(share)):
            self._shown, self._drawn_at = share, time.monotonic()
            share_words = f": {share:.0%}" if total > 0 else ""
            write_folded(self._stream, f"{stage_words(stage)}{share_words}{of_total(total, stage)}{left}")

    def _worth_a_line(self, share: float) -> bool:
        """Not more than one a second: stages that are soon over would fill a log."""
        return share >= self._shown + LINE_STEP and time.monotonic() - self._drawn_at >= LINE_S

    def _draw(self, stage: str, share: float, total: int, left: str) -> None:
        now = time.monotonic()
        if share < 1.0 and now - self._drawn_at < REDRAW_S:
            return
        self._drawn_at = now
        room = (columns_of(self._stream) or UNKNOWN_COLUMNS) - 1
        if total <= 0:
            line = shortened(f"{stage_words(stage)} ...", room)
        else:
            line = bar_line(stage_words(stage), share, [of_total(total, stage), left], room)
        ProgressPrinter._shown_one = self
        self._write(f"{WIPE}{line}\r")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
