"""Off, side, full: which form of the panel is there, and how often the engine is asked to show itself."""

import os
from collections.abc import Callable, Mapping
from enum import StrEnum

from textual.screen import Screen

from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.pace import panel_beat
from ebbtide.app.panel.side import SidePanel
from ebbtide.app.remote import is_remote
from ebbtide.engine.client import ClientEvent
from ebbtide.engine.messages import Command, Loaded, Watch

NEAR_S, FAR_S = 0.25, 1.0
LEAST_SIDE_COLUMNS = 70
"""A narrower screen has no room for chat and panel side by side."""


class Form(StrEnum):
    OFF = "off"
    SIDE = "side"
    FULL = "full"


def period_s(environment: Mapping[str, str] = os.environ) -> float:
    """Seconds between two drawings."""
    return FAR_S if is_remote(environment) else NEAR_S


class PanelControl:
    """Owned by the chat screen. `send` takes commands for the engine, and may drop them when it is dead."""

    def __init__(self, send: Callable[[Command], None], period: float | None = None) -> None:
        self.feed = PanelFeed()
        self.side = SidePanel(self.feed)
        self.form = Form.OFF
        self._send = send
        self._period_s = period_s() if period is None else period
        self._beat = panel_beat(self.side.tick, self._period_s)

    def take(self, event: ClientEvent) -> None:
        """Every event of the engine goes through here."""
        self.feed.take(event)
        if isinstance(event, Loaded) and self.form is not Form.OFF:
            self._send(Watch(self._period_s))

    def cycle(self, screen: Screen[None]) -> None:
        """To the next form: off, side (where there is room), full, off."""
        if self.form is Form.OFF and screen.size.width >= LEAST_SIDE_COLUMNS:
            self._show_side(screen)
        elif self.form is Form.FULL:
            self._close()
        else:
            self._show_full(screen)

    def _show_side(self, screen: Screen[None]) -> None:
        self.form = Form.SIDE
        self.side.open()
        self._send(Watch(self._period_s))
        self._beat.start(screen)
        self.feed.on_change = self._beat.wake
        screen.call_after_refresh(self.side.update)

    def _hide_side(self) -> None:
        self.side.display = False
        self._beat.stop()

    def _show_full(self, screen: Screen[None]) -> None:
        from ebbtide.app.panel.screen import MemoryScreen  # after the first paint

        self._hide_side()
        if self.form is Form.OFF:
            self._send(Watch(self._period_s))
        self.form = Form.FULL
        screen.app.push_screen(MemoryScreen(self.feed, self._period_s, self._send), lambda _: self._close())

    def _close(self) -> None:
        if self.form is not Form.OFF:
            self.form = Form.OFF
            self._hide_side()
            self._send(Watch(0))
