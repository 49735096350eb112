"""The chat screen: turns above, prompt and two status lines below."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen

from ebbtide.app.chat_session import ChatSession, Phase
from ebbtide.app.chat_text import HELP, describe_end, describe_error
from ebbtide.app.panel.control import PanelControl
from ebbtide.app.widgets.memory_bar import MemoryBar
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.status_line import StatusLine, status_of
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.app.widgets.turns import AnswerTurn, Note, UserTurn
from ebbtide.engine.client import ClientEvent, Died
from ebbtide.engine.messages import Failed, Finished, Loaded, Token

DRAW_S = 1 / 15
"""Answers are redrawn at most so often, however fast tokens come."""
QUIT_WINDOW_S = 2.0


@dataclass
class EngineEvent(Message):
    """An event of a client, brought to the screen's own thread."""

    event: ClientEvent
    from_fetcher: bool = False


class ChatScreen(Screen[None]):
    """Draws a ChatSession and passes on what the person does."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "memory_panel", "Memory panel", priority=True, show=False, id="chat.memory_panel"),
        Binding("pageup", "page(-1)", "Scroll up", priority=True, show=False, id="chat.page_up"),
        Binding("pagedown", "page(1)", "Scroll down", priority=True, show=False, id="chat.page_down"),
    ]

    def __init__(self, session: ChatSession) -> None:
        super().__init__()
        self.session = session
        self.panel = PanelControl(session.tell)
        self._answer: AnswerTurn | None = None
        self._interrupted_at = float("-inf")

    def compose(self) -> ComposeResult:
        yield self.panel.side
        yield Transcript()
        with Vertical(id="bottom"):
            yield Prompt()
            yield StatusLine()
            yield MemoryBar()

    def on_mount(self) -> None:
        self.query_one(Prompt).focus()
        self.set_interval(DRAW_S, self._draw)
        # After the first paint: the engine must not delay it.
        self.call_after_refresh(self.session.start)

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    async def _draw(self) -> None:
        """Bring the screen up to date; widgets redraw only what has changed."""
        name = Path(self.session.load.path).stem
        self.query_one(StatusLine).status = status_of(self.session, name)
        self.query_one(MemoryBar).memory = self.session.memory
        if self._answer is not None:
            await self._answer.draw()

    # --- what the person does

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        text = message.text
        word = text.strip()
        if word in ("/bye", "/quit", "/exit"):
            self.app.exit()
        elif word == "/help":
            await self.transcript.add(Note(HELP))
        elif word == "/new":
            await self._new_chat()
        elif word == "/pack":
            self.session.reload_with_pack()
        elif word.startswith("/") and " " not in word and "/" not in word[1:] and "\n" not in word:
            await self.transcript.add(Note(f"There is no command {word}; /help lists them.", "error"))
        else:
            await self._ask(text)

    async def _ask(self, text: str) -> None:
        if self.session.busy:
            self.query_one(Prompt).text = text
            self.notify("One answer at a time: Esc stops it.")
            return
        await self.transcript.add(UserTurn(text))
        self._answer = AnswerTurn()
        await self.transcript.add(self._answer)
        self.session.ask(text)

    async def _new_chat(self) -> None:
        self.session.clear()
        self._answer = None
        await self.transcript.clear()

    async def on_prompt_stop_asked(self, message: Prompt.StopAsked) -> None:
        prompt = self.query_one(Prompt)
        if self.session.busy:
            await self._stop()
        elif message.is_ctrl_c and prompt.text:
            prompt.take_draft()
        elif message.is_ctrl_c:
            self._quit_on_second()

    async def _stop(self) -> None:
        """Stop the answer; a question that was not sent yet leaves the transcript with a note."""
        self.session.stop()
        if not self.session.busy:
            await self._close_answer("Taken back.")

    def _quit_on_second(self) -> None:
        now = time.monotonic()
        if now - self._interrupted_at < QUIT_WINDOW_S:
            self.app.exit()
        self._interrupted_at = now
        self.notify("Ctrl+C again quits.", timeout=QUIT_WINDOW_S)

    def on_prompt_quit_asked(self) -> None:
        self.app.exit()

    def action_page(self, direction: int) -> None:
        """Scroll the transcript, whatever has the focus."""
        scroll = self.transcript.scroll_page_up if direction < 0 else self.transcript.scroll_page_down
        scroll(animate=False)

    def action_memory_panel(self) -> None:
        """Off, side, full."""
        self.panel.cycle(self)

    # --- what the engine does

    async def on_engine_event(self, message: EngineEvent) -> None:
        event = message.event
        if message.from_fetcher:
            self.session.handle_fetcher(event)
            if self.session.phase is Phase.FAILED:
                await self._close_answer(describe_error(self.session), "error")
            return
        self.panel.take(event)
        if not self.session.handle(event):
            return
        match event:
            case Token() if self._answer is not None:
                self._answer.push(event.text)
            case Finished():
                await self._close_answer(describe_end(event))
            case Failed() | Died():
                await self._close_answer(describe_error(self.session), "error")
            case Loaded():
                for notice in event.notices:
                    await self.transcript.add(Note(notice))
            case _:
                pass

    async def _close_answer(self, note: str, kind: str = "info") -> None:
        """Render the rest of the answer, if any, and say how it ended."""
        answer, self._answer = self._answer, None
        if answer is not None:
            await answer.finish()
        if note:
            await self.transcript.add(Note(note, kind))
