"""The memory panel's screen in an application of its own, with the real stylesheet."""

from collections.abc import Callable
from pathlib import Path

from textual.app import App

import ebbtide.app
from ebbtide.app.palettes import theme_name
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.screen import MemoryScreen
from ebbtide.app.themes import install_themes
from ebbtide.engine.messages import Command

NEVER_S = 3600.0
"""The screen draws when a test says so, and not by itself."""


class PanelHost(App[None]):
    """`sent` collects what the panel wants of the engine."""

    CSS_PATH = Path(ebbtide.app.__path__[0]) / "theme.tcss"

    def __init__(self, feed: PanelFeed, theme: str = "dark", read_only: bool = False) -> None:
        super().__init__()
        install_themes(self, theme_name(theme))
        self.sent: list[Command] = []
        send: Callable[[Command], None] | None = None if read_only else self.sent.append
        self.panel = MemoryScreen(feed, NEVER_S, send)
        self.closed = False

    def on_mount(self) -> None:
        def note_close(_: None) -> None:
            self.closed = True

        self.push_screen(self.panel, note_close)

    def text(self) -> str:
        """What is on the screen, line by line."""
        return "\n".join(strip.text.rstrip() for strip in self.screen._compositor.render_strips())
