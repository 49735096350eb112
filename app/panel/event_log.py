"""Decisions of the engine, newest first, one sentence each; the last one alone for where room is short."""

import time
from collections.abc import Callable

import msgspec

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import LABEL, TITLE, Row, text, wrap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import Place
from ebbtide.app.panel.way_back import latest_by_hand, way_back
from ebbtide.app.safe_text import safe_line
from ebbtide.engine.messages import Decision

TIME_CELLS, KIND_CELLS = 9, 9
MEASURE = 100
"""Longer lines of words are hard to read."""


def clock(decision: Decision) -> str:
    return time.strftime("%H:%M:%S", time.localtime(decision.at))


class EventLog(Canvas):
    """Pause freezes what is shown; a filter keeps what has the words; JSON shows the events as they came.

    `place`: the expert on which keys act; None where there are no such keys.
    """

    def __init__(self, feed: PanelFeed, place: Callable[[], Place | None] = lambda: None) -> None:
        super().__init__()
        self._feed, self._place = feed, place
        self._frozen: list[Decision] | None = None
        self.words = ""
        self.as_json = False
        self.skip = 0
        """Newest events that are scrolled out of view."""

    @property
    def paused(self) -> bool:
        return self._frozen is not None

    @property
    def waiting(self) -> int:
        """Events that came while it was paused."""
        if self._frozen is None:
            return 0
        seen = self._frozen[-1] if self._frozen else None
        fresh = list(self._feed.decisions)
        return len(fresh) - (fresh.index(seen) + 1 if seen in fresh else 0)

    def toggle_pause(self) -> None:
        self._frozen = list(self._feed.decisions) if self._frozen is None else None
        self.skip = 0

    def scroll_by(self, count: int) -> None:
        """Towards older (positive) or newer events."""
        self.skip = max(0, min(self.skip + count, len(self.chosen()) - 1))

    def chosen(self) -> list[Decision]:
        """What the filter lets through, newest first."""
        decisions = self._feed.decisions if self._frozen is None else self._frozen
        words = self.words.casefold().split()
        return [
            decision
            for decision in reversed(decisions)
            if all(word in f"{decision.kind} {decision.sentence}".casefold() for word in words)
        ]

    def rows(self, width: int, height: int) -> list[Row]:
        rows: list[Row] = []
        undone = latest_by_hand(reversed(self._feed.decisions), self._place())
        for decision in self.chosen()[self.skip :]:
            rows += self._json(decision, width) if self.as_json else self._sentence(decision, width, undone)
            if len(rows) >= height:
                break
        if not rows:
            rows.append(text("Nothing matches." if self.words else "Nothing has happened yet.", LABEL))
        return rows

    @staticmethod
    def _json(decision: Decision, width: int) -> list[Row]:
        line = safe_line(msgspec.json.encode(decision).decode())
        return [text(line[start : start + width]) for start in range(0, len(line), max(width, 1))]

    @staticmethod
    def _sentence(decision: Decision, width: int, undone: Decision | None) -> list[Row]:
        """`undone`: the one that a key takes back."""
        way = way_back(decision) if decision is undone else ""
        sentence = safe_line(decision.sentence) + (f" · {way}" if way else "")
        head = [*text(clock(decision).ljust(TIME_CELLS), LABEL)]
        if width >= 60:
            head += text(decision.kind.ljust(KIND_CELLS), TITLE)
        lines = wrap(sentence, min(width - len(head), MEASURE))
        return [
            [*(head if number == 0 else text(" " * len(head))), *line] for number, line in enumerate(lines)
        ]


class LastDecision(Canvas):
    """What the engine did last, in as many rows as there are."""

    def __init__(self, feed: PanelFeed) -> None:
        super().__init__()
        self._feed = feed

    def rows(self, width: int, height: int) -> list[Row]:
        decision = self._feed.decisions[-1] if self._feed.decisions else None
        if decision is None:
            return [text("Nothing has happened yet.", LABEL)]
        rows = wrap(f"{clock(decision)} {safe_line(decision.sentence)}", min(width, TIME_CELLS + MEASURE))
        if len(rows) > height:
            rows[height - 1] = [*rows[height - 1][: min(width, TIME_CELLS + MEASURE) - 2], *text(" …")]
        return [
            [cell._replace(ink=LABEL) if y == 0 and x < TIME_CELLS else cell for x, cell in enumerate(row)]
            for y, row in enumerate(rows)
        ]
