"""The Textual application around the chat screen: its events, and the end of the engine."""

from collections.abc import Callable

from textual.events import Event, InputEvent, MouseMove, Paste

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.engine_events import EngineEvent
from ebbtide.app.terminal_app import TerminalApp
from ebbtide.engine.client import ClientEvent

PostEvent = Callable[[ClientEvent], None]
MakeSession = Callable[[PostEvent, PostEvent], ChatSession]
"""Makes the session from two callbacks: for events of the engine, and of the fetcher."""


class ChatApp(TerminalApp):
    """`ebbtide [MODEL]`."""

    TITLE = "ebbtide"

    def __init__(
        self,
        make_session: MakeSession,
        theme: str = "auto",
        tools: ChatTools | None = None,
    ) -> None:
        super().__init__(theme)
        tools = tools or ChatTools()
        tools.theme = theme
        self.session = make_session(self._post_engine, self._post_fetcher)
        self._chat = ChatScreen(self.session, tools)

    def on_mount(self) -> None:
        self.push_screen(self._chat)

    def on_unmount(self) -> None:
        self.session.close()

    async def on_event(self, event: Event) -> None:
        """Whatever a person does, on any screen, may change what the chat shows."""
        if isinstance(event, (InputEvent, Paste)) and not isinstance(event, MouseMove):
            self._chat.wake()
        await super().on_event(event)

    def _post_engine(self, event: ClientEvent) -> None:
        """Called on a client's reader thread; posting is safe from there while the screen is there."""
        if self._chat.is_attached:
            self._chat.post_message(EngineEvent(event, self.session.model.life))

    def _post_fetcher(self, event: ClientEvent) -> None:
        if self._chat.is_attached:
            self._chat.post_message(EngineEvent(event, from_fetcher=True))
