"""The Textual application around the chat screen: themes, signals, and the end of the engine."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App
from textual.theme import Theme

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.lost_terminal import end_after_hang_up
from ebbtide.app.palettes import theme_name
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.engine_events import EngineEvent
from ebbtide.app.signals import EXIT_INTERRUPTED, EXIT_TERMINATED
from ebbtide.app.themes import install_themes
from ebbtide.engine.client import ClientEvent

if TYPE_CHECKING:
    from textual.driver import Driver

PostEvent = Callable[[ClientEvent], None]
MakeSession = Callable[[PostEvent, PostEvent], ChatSession]
"""Makes the session from two callbacks: for events of the engine, and of the fetcher."""


class ChatApp(App[None]):
    """`ebbtide [MODEL]`."""

    CSS_PATH = Path(__file__).with_name("theme.tcss")
    TITLE = "ebbtide"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        make_session: MakeSession,
        theme: str = "auto",
        remember_theme: Callable[[str], None] = lambda theme: None,
        tools: ChatTools | None = None,
    ) -> None:
        super().__init__()
        install_themes(self, theme_name(theme))
        self._remember_theme = remember_theme
        self.session = make_session(self._post_engine, self._post_fetcher)
        self._chat = ChatScreen(self.session, tools)

    def get_driver_class(self) -> "type[Driver]":
        """Textual's own, or one that goes on from the first frame where there may be one."""
        usual = super().get_driver_class()
        if sys.platform == "win32" or os.environ.get("TEXTUAL_DRIVER"):
            return usual
        from ebbtide.app.take_over import TakingOver  # there is no such terminal on Windows

        return TakingOver

    def on_mount(self) -> None:
        self.push_screen(self._chat)
        self.theme_changed_signal.subscribe(self, self._theme_changed)
        self._restore_terminal_on_signals()

    def on_unmount(self) -> None:
        self.session.close()

    def _theme_changed(self, theme: Theme) -> None:
        """Chosen in the app: it holds for the next start too."""
        self._remember_theme(theme.name.removeprefix("ebbtide-"))

    def _post_engine(self, event: ClientEvent) -> None:
        """Called on a client's reader thread; posting is safe from there while the screen is there."""
        if self._chat.is_attached:
            self._chat.post_message(EngineEvent(event, self.session.model.life))

    def _post_fetcher(self, event: ClientEvent) -> None:
        if self._chat.is_attached:
            self._chat.post_message(EngineEvent(event, from_fetcher=True))

    def _restore_terminal_on_signals(self) -> None:
        """Without handlers these would leave the terminal in the application's mode."""
        loop = asyncio.get_running_loop()
        codes = {"SIGTERM": EXIT_TERMINATED, "SIGHUP": EXIT_TERMINATED, "SIGINT": EXIT_INTERRUPTED}
        for name, code in codes.items():
            number = getattr(signal, name, None)
            if number is not None:
                with suppress(
                    NotImplementedError, RuntimeError, ValueError
                ):  # Windows, or not the main thread
                    loop.add_signal_handler(number, self._exit_with, code)

    def _exit_with(self, code: int) -> None:
        end_after_hang_up(self, code)
