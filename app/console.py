"""Standard error for people: two-line errors, notes, progress. Standard output is left to the answer."""

import os
import sys
import time
from types import TracebackType
from typing import Self, TextIO

from ebbtide.app.safe_text import safe, safe_line
from ebbtide.app.stages import Pace, is_short, of_total, stage_words
from ebbtide.engine.errors import EbbtideError

BAR_CELLS = 24
REDRAW_S = 0.1
LINE_STEP, LINE_S = 0.1, 1.0
"""Without a terminal, one line for each tenth of a stage, and at most one a second."""


def is_dumb() -> bool:
    """The terminal understands no sequences, as that of an editor; it says so itself."""
    return os.environ.get("TERM", "").strip().lower() == "dumb"


def note(text: str) -> None:
    """One line of information."""
    print(safe_line(text), file=sys.stderr, flush=True)


def print_error(error: EbbtideError, detail: str = "") -> None:
    """One line that says what, one that says what to do, and with --debug the detail."""
    if detail:
        print(safe(detail).rstrip(), file=sys.stderr)
    print(f"ebbtide: {safe_line(str(error))}", file=sys.stderr)
    print(f"  {safe_line(error.hint)}", file=sys.stderr, flush=True)


class ProgressPrinter:
    """A bar on a terminal, a few plain lines elsewhere. Use as a context manager.

    Stages that take seconds are not told where nobody looks: they would only fill a log.
    """

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
        if self._terminal and self._stage:
            self._write("\r\x1b[K")

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
            self._write(
                f"{stage_words(stage)}{f': {share:.0%}' if total > 0 else ''}{of_total(total)}{left}\n"
            )

    def _worth_a_line(self, share: float) -> bool:
        """Not more than one a second: stages that are soon over would fill a log."""
        return share >= self._shown + LINE_STEP and time.monotonic() - self._drawn_at >= LINE_S

    def _draw(self, stage: str, share: float, total: int, left: str) -> None:
        now = time.monotonic()
        if share < 1.0 and now - self._drawn_at < REDRAW_S:
            return
        self._drawn_at = now
        if total <= 0:
            self._write(f"\r\x1b[K{stage_words(stage)} ...")
            return
        full = round(share * BAR_CELLS)
        bar = "━" * full + "─" * (BAR_CELLS - full)
        self._write(f"\r\x1b[K{stage_words(stage)[:40]} {bar} {share:4.0%}{of_total(total)}{left}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
