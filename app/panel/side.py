"""The place of the compact panel beside the chat: empty, and next to free, until it is opened."""

from typing import TYPE_CHECKING

from textual.containers import Vertical

from ebbtide.app.panel.feed import PanelFeed

if TYPE_CHECKING:
    from ebbtide.app.panel.side_parts import SideParts


class SidePanel(Vertical):
    """Hidden until the control opens it; its parts are made then."""

    can_focus = False

    def __init__(self, feed: PanelFeed) -> None:
        super().__init__()
        self._feed = feed
        self._parts: SideParts | None = None
        self.display = False

    def open(self) -> None:
        """Show it."""
        if self._parts is None:
            from ebbtide.app.panel.side_parts import SideParts  # the first paint does not wait for this

            self._parts = SideParts(self._feed)
            self.mount(self._parts)
        self.display = True

    def tick(self) -> None:
        """At every drawing interval."""
        if self._parts is not None:
            self._parts.tick()

    def update(self) -> None:
        """Draw what has changed."""
        if self._parts is not None:
            self._parts.update()
