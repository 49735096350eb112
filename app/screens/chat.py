"""The chat screen: turns above, prompt and two status lines below. It draws a ChatSession and passes on
what the person does; what commands do is in `ebbtide.app.slash`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_text import describe_end, describe_error
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.clipboard import copy
from ebbtide.app.context_choice import context_choices, messages_to_leave_out
from ebbtide.app.conversation import Message as ChatMessage
from ebbtide.app.files.mentions import with_files
from ebbtide.app.garbage import collect_now, collect_rarely
from ebbtide.app.panel.control import PanelControl
from ebbtide.app.phase import Phase
from ebbtide.app.question_queue import QuestionQueue
from ebbtide.app.screens.picker import Choice, Find, Picker, narrowing
from ebbtide.app.screens.text_page import TextPage
from ebbtide.app.slash.all_commands import REGISTRY
from ebbtide.app.slash.help_text import help_text
from ebbtide.app.slash.registry import Call
from ebbtide.app.turns_view import TurnsView
from ebbtide.app.widgets.memory_bar import MemoryBar
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.prompt_area import PromptArea
from ebbtide.app.widgets.queue_list import QueueList
from ebbtide.app.widgets.status_line import StatusLine, status_of
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.app.widgets.turns import Note
from ebbtide.engine.client import ClientEvent, Died
from ebbtide.engine.errors import ContextError, EbbtideError, UsageError
from ebbtide.engine.messages import Failed, Finished, Load, Loaded

DRAW_S = 1 / 15
"""Answers are redrawn at most so often, however fast tokens come."""
IDLE_SHARE, MOST_IDLE_S = 3.0, 1.0
"""After a redraw that took long, so many times as long (a second at most) are left to keys and scrolling."""
DOUBLE_KEY_S = 2.0
"""Ctrl+C twice, Esc twice: within this time. A terminal behind tmux delays each Esc by half a second."""
COLLECT_AFTER_S = 3.0
BUSY_HINT = "Esc stops the answer."


@dataclass
class EngineEvent(Message):
    """An event of a client, brought to the screen's own thread."""

    event: ClientEvent
    from_fetcher: bool = False


class ChatScreen(Screen[None]):
    """`session` is the chat, `tools` the world around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "memory_panel", "Memory panel", priority=True, show=False, id="chat.memory_panel"),
        Binding("pageup", "page(-1)", "Scroll up", priority=True, show=False, id="chat.page_up"),
        Binding("pagedown", "page(1)", "Scroll down", priority=True, show=False, id="chat.page_down"),
    ]
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - declared so by Screen
        (0, "-narrow"),
        (60, "-normal"),
        (110, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-tiny"),
        (8, "-low"),
        (18, "-tall"),
    ]

    def __init__(self, session: ChatSession, tools: ChatTools | None = None) -> None:
        super().__init__()
        self.session = session
        self.tools: ChatTools = tools or ChatTools()
        self.registry = REGISTRY
        self.panel = PanelControl(session.tell)
        self.queue = QuestionQueue()
        self.turns = TurnsView(session, Transcript())
        self._pressed_at: dict[str, float] = {}
        self._told_trouble = ""
        self._draw_after = 0.0

    def compose(self) -> ComposeResult:
        yield self.panel.side
        yield self.turns.transcript
        with Vertical(id="bottom"):
            yield PromptArea(self)
            yield StatusLine()
            yield MemoryBar()

    async def on_mount(self) -> None:
        self.set_class(self.tools.settings.compact, "-compact")
        if self.tools.settings.reduced_motion or self.app.animation_level == "none":
            self.app.animation_level = "none"
            self.prompt.cursor_blink = False
        self.prompt.focus()
        self.set_interval(DRAW_S, self._draw)
        # After the first paint: neither the engine nor the store may delay it.
        self.call_after_refresh(self._start)

    async def _start(self) -> None:
        self.session.start()
        collect_rarely()
        await self.guarded(self._restore())

    async def _restore(self) -> None:
        """What was there before: the chat that was asked for, or an offer of the last one; the draft."""
        store = self.session.keeper.store
        self.prompt.load_history(store.history(200)[::-1])
        if store.notice:
            self.note(store.notice)
        if self.tools.chat_id:
            await self.open_chat(self.tools.chat_id)
            return
        last = store.last_open_chat()
        if last is not None:
            self.turns.transcript.offer(last.title or "the last chat")
        self._load_queue()
        self.prompt.restore_draft(self.session.keeper.load_draft())

    @property
    def transcript(self) -> Transcript:
        return self.turns.transcript

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def area(self) -> PromptArea:
        return self.query_one(PromptArea)

    async def _draw(self) -> None:
        """Bring the screen up to date; widgets redraw only what has changed."""
        name = Path(self.session.load.path).stem
        self.query_one(StatusLine).status = status_of(self.session, name)
        self.query_one(MemoryBar).memory = self.session.memory
        began = time.monotonic()
        if began >= self._draw_after:
            self._draw_after = began + MOST_IDLE_S  # until it is known how long this takes
            await self.transcript.draw()
            self.call_after_refresh(self._painted, began)
        self._tell_trouble()

    def _painted(self, began: float) -> None:
        """Draw, layout and paint are done; the longer they took, the longer until the next."""
        now = time.monotonic()
        self._draw_after = now + min((now - began) * IDLE_SHARE, MOST_IDLE_S)

    def _tell_trouble(self) -> None:
        """Say once that chats cannot be saved, and once that they can again."""
        keeper = self.session.keeper
        trouble = keeper.store.trouble or keeper.fault
        text = f"{trouble}\n{trouble.hint}" if trouble is not None else ""
        if text != self._told_trouble:
            self._told_trouble = text
            self.note(text or "Chats are saved again.", "error" if text else "info")

    # --- what commands use

    def note(self, text: str, kind: str = "info") -> None:
        """A remark behind the last turn."""
        self.call_next(self.transcript.add, Note(text, kind))

    async def guarded(self, deed: Awaitable[None]) -> None:
        """Do something; a failure that people can understand is shown with its hint."""
        try:
            await deed
        except EbbtideError as error:
            self.note(f"{error}\n{error.hint}", "error")

    def pick(
        self,
        title: str,
        rows: Sequence[Choice] | Find,
        then: Callable[[str], Awaitable[None]],
        typed: str = "",
    ) -> None:
        """Let the person choose a row, then go on with its value."""

        async def chosen(value: str | None) -> None:
            if value is not None:
                await self.guarded(then(value))

        find = rows if callable(rows) else narrowing(rows)
        self.app.push_screen(Picker(title, find, typed), chosen)

    def show_help(self) -> None:
        self.app.push_screen(TextPage(help_text(self.registry)))

    async def copy(self, text: str) -> None:
        """Copy and say what is known about it."""
        said = await asyncio.to_thread(copy, text, self.app.copy_to_clipboard)
        self.notify(said, markup=False)

    def set_system(self, text: str) -> None:
        self.session.chat.set_system(text)

    def set_compact(self, compact: bool) -> None:
        self.set_class(compact, "-compact")
        self.tools.remember("compact", compact)

    async def reload(self, load: Load) -> None:
        """Load another model or budget; the chat stays."""
        if self.session.busy:
            raise UsageError("an answer is being written", hint=BUSY_HINT)
        self.session.reload(load)

    async def new_chat(self) -> None:
        self.area.save_draft()
        self.session.clear()
        await self._chat_changed()

    async def open_chat(self, chat_id: str) -> None:
        self.area.save_draft()
        self.session.open(chat_id)
        await self._chat_changed()

    async def open_hit(self, value: str) -> None:
        """Open a chat at a message that was found: "CHAT MESSAGE"."""
        chat_id, _, message_id = value.partition(" ")
        store = self.session.keeper.store
        if message_id:
            store.set_active(chat_id, store.leaf_below(int(message_id)))
        await self.open_chat(chat_id)
        for turn in self.transcript.turns:
            if turn.message is not None and str(turn.message.key) == message_id:
                await self.transcript.reveal(turn)

    async def _chat_changed(self) -> None:
        """Another chat is on the screen; each has its own draft."""
        self._load_queue()
        self.area.end_edit()
        # Before anything is waited for: what is typed in the meantime belongs to the new chat.
        self.prompt.text = ""
        self.prompt.restore_draft(self.session.keeper.load_draft())
        await self.turns.clear()
        await self.turns.sync()

    def begin_edit(self, message: ChatMessage) -> None:
        """The question is in the prompt; sending it makes a new version."""
        self.must_be_idle()
        self.area.begin_edit(message)

    async def regenerate(self, message: ChatMessage | None) -> None:
        self.must_be_idle()
        if message is None:
            raise UsageError("there is no question yet", hint="Ask something first.")
        self.session.regenerate(message)
        await self.turns.sync()

    async def fork(self, message: ChatMessage) -> None:
        self.must_be_idle()
        self.area.save_draft()
        self.session.fork(message)
        await self._chat_changed()
        self.note("This is a new chat; the old one stays as it was (/chats).")

    async def switch_version(self, message: ChatMessage, step: int) -> None:
        self.must_be_idle()
        self.session.chat.switch(message, step)
        await self.turns.sync()

    async def leave_out(self, count: int) -> None:
        """Keep the oldest messages from the model; they stay on the screen."""
        left_out = self.session.chat.leave_out_oldest(count)
        await self.turns.sync()
        self.note(f"The oldest {left_out} messages are not sent to the model any more; /untrim undoes it.")

    async def toggle_left_out(self, message: ChatMessage) -> None:
        """Send a single message or not."""
        self.session.chat.set_left_out(message, not message.left_out)
        await self.turns.sync()

    async def send_all(self) -> None:
        count = self.session.chat.send_all()
        await self.turns.sync()
        self.note(f"All messages are sent again ({count} were left out).")

    def must_be_idle(self) -> None:
        """Raises UsageError while an answer is written."""
        if self.session.busy:
            raise UsageError("an answer is being written", hint=BUSY_HINT)

    # --- what the person does

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        call = self.registry.parse(message.text)
        if call is not None:
            await self.guarded(self._call(call))
        else:
            await self.submit(message.text)
        self.area.save_draft()  # at once: what has been sent is no draft any more

    async def _call(self, call: Call) -> None:
        if call.command is None:
            near = self.registry.nearest(call.name)
            hint = (
                "Did you mean " + " or ".join(f"/{name}" for name in near) + "?"
                if near
                else "/help lists them."
            )
            raise UsageError(f"There is no command /{call.name}.", hint=hint)
        await call.command.run(self, call.argument)

    async def submit(self, text: str) -> None:
        """Ask, or queue while an answer is written. With a file that cannot be sent, the text stays."""
        try:
            whole = with_files(text, self.tools.folder)
        except UsageError as error:
            self.prompt.put(text)
            self.note(f"{error}\n{error.hint}", "error")
            return
        edited = self.area.end_edit()
        if self.session.busy:
            self.queue.add(whole)
            self._show_queue()
        else:
            await self._ask(whole, edited)

    async def _ask(self, text: str, edited: ChatMessage | None = None) -> None:
        if edited is not None:
            self.session.edit(edited, text)
        else:
            self.session.ask(text)
        await self.turns.sync()

    async def on_prompt_stop_asked(self, message: Prompt.StopAsked) -> None:
        if self.session.busy:
            await self._stop()
        elif self.area.editing and not message.is_ctrl_c:
            self.area.end_edit()
            self.prompt.take_draft()
        elif message.is_ctrl_c and self.prompt.text:
            self.prompt.take_draft()
        elif message.is_ctrl_c:
            if self._twice("ctrl+c", "Ctrl+C again quits."):
                self.app.exit()
        elif not self.prompt.text and self._twice("escape", "Esc again edits the last question."):
            await self.guarded(self._edit_last())

    async def _edit_last(self) -> None:
        path = self.session.conversation.path
        question = next((message for message in reversed(path) if message.role == "user"), None)
        if question is not None:
            self.begin_edit(question)

    async def _stop(self) -> None:
        """Stop the answer; a question that was not sent yet is taken back, one Up away."""
        self.queue.hold()
        self.session.stop()
        if not self.session.busy:
            await self._answer_ended("Taken back.")
            self._give_back()
        self._show_queue()

    def _twice(self, key: str, hint: str) -> bool:
        """Whether the key was pressed a moment ago too; otherwise say what a second press does."""
        now = time.monotonic()
        again = now - self._pressed_at.get(key, float("-inf")) < DOUBLE_KEY_S
        self._pressed_at = {} if again else {key: now}
        if not again:
            self.notify(hint, timeout=DOUBLE_KEY_S)
        return again

    def on_prompt_quit_asked(self) -> None:
        self.app.exit()

    def on_queue_list_taken(self, message: QueueList.Taken) -> None:
        self.unqueue(message.index)

    def unqueue(self, index: int = -1) -> None:
        """A queued question comes back to the prompt."""
        question = self.queue.take(index)
        if question is not None:
            self.prompt.put(question)
        self._show_queue()

    async def send_next(self, *, by_person: bool = False) -> None:
        """Send the next queued question, unless they are held."""
        if by_person:
            self.queue.release()
        question = None if self.session.busy else self.queue.next()
        if question is not None:
            await self._ask(question)
        self._show_queue()

    def _load_queue(self) -> None:
        """What waited in this chat when it was left, or when ebbtide was ended, goes on waiting."""
        self.queue = QuestionQueue(self.session.keeper.load_queue())
        self._show_queue()

    def _show_queue(self) -> None:
        self.session.keeper.save_queue(self.queue.questions)
        self.area.show_queue(self.queue)

    async def resume(self) -> None:
        """Go on with the chat that was on the screen last."""
        last = self.session.keeper.store.last_open_chat()
        if last is not None and not self.session.turns:
            await self.guarded(self.open_chat(last.id))

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
                await self._answer_ended(describe_error(self.session), "error")
                self._give_back()
            return
        self.panel.take(event)
        asked = self.session.turns[-1].content if self.session.turns else ""
        if not self.session.handle(event):
            return
        match event:
            case Finished():
                await self._answer_ended(describe_end(event))
                self._give_back()
                if event.finish_reason == "context":
                    self._offer_ways_out()
                await self.send_next()
            case Failed() | Died():
                self.queue.hold()
                await self._answer_ended(describe_error(self.session), "error")
                self._show_queue()
                self._give_back()
                if isinstance(self.session.error, ContextError):
                    self._offer_ways_out(asked)
            case Loaded():
                await self.turns.sync()
                for notice in event.notices:
                    self.note(notice)
            case _:
                pass

    async def _answer_ended(self, note: str, kind: str = "info") -> None:
        """Show how the chat stands now, and say how the answer ended."""
        self.session.answer.content.end()
        await self.turns.sync()
        await self.transcript.draw()
        self.set_timer(COLLECT_AFTER_S, self._collect)
        if note:
            await self.transcript.add(Note(note, kind))

    def _give_back(self) -> None:
        """A question that failed before the first word is in the prompt again, ready to be sent once more;
        one Up away where something else has been typed by now.
        """
        self.prompt.restore_draft(self.session.take_back())

    def _collect(self) -> None:
        """Nobody waits for the screen now."""
        if not self.session.busy and not self.prompt.text:
            collect_now()

    def _offer_ways_out(self, question: str = "") -> None:
        """The context is full. `question` could not be asked; without one, an answer was cut off."""
        last = next((turn for turn in reversed(self.session.turns) if turn.role == "user"), None)
        asked = question or (last.content if last is not None else "")

        async def go(way: str) -> None:
            if question and way in ("trim", "fork"):
                self.prompt.text = ""  # it was put back there, in case nothing is chosen
            if way == "trim":
                await self.leave_out(messages_to_leave_out(self.session, question))
                if question:
                    await self._ask(question)
                else:
                    await self.regenerate(self.session.conversation.path[-1])
            elif way == "fork":
                await self.new_chat()
                await self._ask(asked)
            elif not question:
                await self._edit_last()

        self.pick("The context is full", context_choices(self.session, question), go)
