"""When to draw: an unchanged feed costs nothing, and the minute moves on once a second."""

import time
from collections.abc import Iterable

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.sparks import Sparks


class Pace:
    """`tick` at every drawing interval."""

    def __init__(self, feed: PanelFeed) -> None:
        self._feed = feed
        self._version, self._second = -1, -1

    def tick(self, parts: Iterable[Canvas]) -> bool:
        """Whether all has to be drawn; where only time has passed, the lines of the past minute are."""
        version, second = self._feed.version, int(time.monotonic())
        moved = second != self._second
        if version == self._version and moved:
            for part in parts:
                if isinstance(part, Sparks):
                    part.update()
        fresh, self._version, self._second = version != self._version, version, second
        return fresh
