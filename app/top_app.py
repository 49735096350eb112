"""The application of `ebbtide top`: the memory panel over another process's engine."""

import threading
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType
from textual.message import Message

from ebbtide.app.panel.control import period_s
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.screen import MemoryScreen
from ebbtide.app.terminal_app import TerminalApp
from ebbtide.engine.attach import Viewer, app_of, find_successor
from ebbtide.engine.errors import EngineDied
from ebbtide.engine.frames import Frame

WAKE_S = 0.5
SEARCH_S = 1.0
"""After an engine's end, another one is looked for so often."""


class Attached(Message):
    """Frames come from another engine now."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid


class Arrived(Message):
    """A frame, or None: the engine has ended."""

    def __init__(self, frame: Frame | None) -> None:
        super().__init__()
        self.frame = frame


class TopApp(TerminalApp):
    """Reads frames on a thread of its own; the screen draws them at its own pace.

    When the engine ends, as it does for another budget or model, the next one in `folder` is attached to.
    """

    TITLE = "ebbtide top"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+d", "quit", "Quit", show=False)]

    def __init__(self, viewer: Viewer, folder: Path, theme: str = "auto") -> None:
        super().__init__(theme)
        self.feed = PanelFeed()
        self._viewer, self._folder = viewer, folder
        self._app = app_of(viewer.pid)
        self._over = threading.Event()
        self._last: Frame | None = None

    def on_mount(self) -> None:
        screen = MemoryScreen(self.feed, period_s(), None, way_out="q quits")
        self.push_screen(screen, lambda _: self.exit())
        threading.Thread(target=self._read, name="frames", daemon=True).start()

    def on_unmount(self) -> None:
        self._over.set()

    def _read(self) -> None:
        while not self._over.is_set():
            try:
                frame = self._viewer.read(WAKE_S)
            except EngineDied:
                self.post_message(Arrived(None))
                self._attach_again()
                continue
            if frame is not None and self._is_news(frame):
                self.post_message(Arrived(frame))

    def _is_news(self, frame: Frame) -> bool:
        """Whether it tells more than that time has passed."""
        before, self._last = self._last, msgspec.structs.replace(frame, at=0.0)
        return before != self._last

    def _attach_again(self) -> None:
        """Wait until there is another engine, or until the screen is closed."""
        self._viewer.close()
        while not self._over.wait(SEARCH_S):
            card = find_successor(self._folder, self._app)
            if card is None:
                continue
            with suppress(EngineDied):
                self._viewer = Viewer(self._folder, card)
                self._app = app_of(card.pid)
                self.post_message(Attached(card.pid))
                return

    def on_attached(self, message: Attached) -> None:
        self.feed.attached(message.pid)

    def on_arrived(self, message: Arrived) -> None:
        if message.frame is not None:
            self.feed.take_frame(message.frame)
        else:
            self.feed.end()
