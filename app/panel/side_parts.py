"""What stands in the compact panel beside the chat."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical

from ebbtide.app.panel.event_log import LastDecision
from ebbtide.app.panel.expert_map import ExpertMap
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.inks import INK_CLASSES, Inked
from ebbtide.app.panel.memory_bars import SideBars
from ebbtide.app.panel.pace import Pace, update_parts
from ebbtide.app.panel.rule import Rule
from ebbtide.app.panel.sparks import Sparks
from ebbtide.app.panel.title import map_remark


class SideParts(Inked, Vertical):
    """It only shows; the prompt keeps the keys."""

    can_focus = False
    COMPONENT_CLASSES: ClassVar[set[str]] = INK_CLASSES

    def __init__(self, feed: PanelFeed) -> None:
        super().__init__()
        self._feed = feed
        self._map = ExpertMap(feed)
        self._pace = Pace(feed, self._map)

    def compose(self) -> ComposeResult:
        yield Rule(lambda: "memory", lambda: "F2 more")
        yield SideBars(self._feed)
        yield Rule(lambda: "last 60 s")
        yield Sparks(self._feed, compact=True)
        yield Rule(lambda: "experts", self._resident)
        yield self._map
        yield Rule(lambda: "latest")
        yield LastDecision(self._feed)

    def _resident(self) -> str:
        return map_remark(self._feed, self._map.grid).removesuffix(" in memory")

    def tick(self) -> None:
        """At every drawing interval."""
        if self._pace.due(self):
            self.update()

    def update(self) -> None:
        """Draw what has changed."""
        update_parts(self)
