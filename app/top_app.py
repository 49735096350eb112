"""The application of `ebbtide top`: the memory panel over another process's engine."""

import threading
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from ebbtide.app.panel.control import period_s
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.screen import MemoryScreen
from ebbtide.app.terminal_app import TerminalApp
from ebbtide.engine.attach import Viewer
from ebbtide.engine.errors import EngineDied
from ebbtide.engine.frames import Frame

WAKE_S = 0.5


class Arrived(Message):
    """A frame, or None: the engine has ended."""

    def __init__(self, frame: Frame | None) -> None:
        super().__init__()
        self.frame = frame


class TopApp(TerminalApp):
    """Reads frames on a thread of its own; the screen draws them at its own pace."""

    TITLE = "ebbtide top"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c,ctrl+d", "quit", "Quit", show=False)]

    def __init__(self, viewer: Viewer, theme: str = "auto") -> None:
        super().__init__(theme)
        self.feed = PanelFeed()
        self._viewer = viewer
        self._over = threading.Event()

    def on_mount(self) -> None:
        screen = MemoryScreen(self.feed, period_s(), None, way_out="q quits")
        self.push_screen(screen, lambda _: self.exit())
        threading.Thread(target=self._read, name="frames", daemon=True).start()

    def on_unmount(self) -> None:
        self._over.set()

    def _read(self) -> None:
        try:
            while not self._over.is_set():
                frame = self._viewer.read(WAKE_S)
                if frame is not None:
                    self.post_message(Arrived(frame))
        except EngineDied:
            self.post_message(Arrived(None))

    def on_arrived(self, message: Arrived) -> None:
        if message.frame is not None:
            self.feed.take_frame(message.frame)
        else:
            self.feed.end()
