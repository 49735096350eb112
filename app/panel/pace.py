"""When to draw: an unchanged feed costs nothing, and the minute moves on once a second."""

import time
from collections.abc import Callable

from textual.geometry import Size
from textual.widget import Widget

from ebbtide.app.beat import Beat
from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.expert_map import ExpertMap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.memory_bars import Bars
from ebbtide.app.panel.sparks import Sparks
from ebbtide.app.panel.tiles import Tiles
from ebbtide.engine.messages import Machine

REST_S = 1.0
"""The lines of the past minute move on so often."""


def panel_beat(tick: Callable[[], None], period_s: float) -> Beat:
    """Looks after `period_s` at what has come; else only for the past minute."""
    return Beat(tick, period_s, awake_s=period_s, rest_s=max(REST_S, period_s))


def update_parts(root: Widget) -> None:
    """Draw what has changed in all parts of a panel."""
    for tiles in root.query(Tiles):
        tiles.update()
    for canvas in root.query(Canvas):
        canvas.update()


class Pace:
    """Asked at every drawing interval."""

    def __init__(self, feed: PanelFeed, experts: ExpertMap) -> None:
        self._feed, self._experts = feed, experts
        self._drawn: tuple[int, Size] | None = None
        self._second = -1
        self._machine: Machine | None = None

    def due(self, root: Widget) -> bool:
        """Whether all has to be drawn. Where only time has passed, the lines of the past minute are drawn;
        where only the system has told its figures, the bars.
        """
        # What stands above the map depends on its size, which is known only after the layout.
        state, second = (self._feed.version, self._experts.size), int(time.monotonic())
        fresh, moved = state != self._drawn, second != self._second
        self._drawn, self._second = state, second
        weighed, self._machine = self._machine is not self._feed.machine, self._feed.machine
        if moved and not fresh:
            for sparks in root.query(Sparks):
                sparks.update()
        if weighed and not fresh:
            for bars in root.query(Bars):
                bars.update()
        return fresh
