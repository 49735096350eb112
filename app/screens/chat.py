"""The chat screen: turns above, prompt and two status lines below. It shows a ChatSession and passes on
what the person does; what commands do is in `ebbtide.app.slash`.

    keys, messages --> ChatScreen --> Questions     the prompt, the queue
                                      Changes       chats, versions, what is sent
                                      EngineEvents  what the engine says
                                      Elsewhere     what another window writes
                                      Leaving       what is not saved at the end
                                      Drawing       when all of it is drawn
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.clipboard import copy
from ebbtide.app.garbage import collect_rarely
from ebbtide.app.greeting import OFFER, greeting
from ebbtide.app.panel.control import PanelControl
from ebbtide.app.phase import Phase
from ebbtide.app.safe_text import safe_line
from ebbtide.app.screens.changes import BusyError, Changes
from ebbtide.app.screens.double_press import DOUBLE_KEY_S, DoublePress
from ebbtide.app.screens.drawing import Drawing
from ebbtide.app.screens.elsewhere import Elsewhere
from ebbtide.app.screens.engine_events import EngineEvent, EngineEvents
from ebbtide.app.screens.leaving import RETRY_S, Leaving
from ebbtide.app.screens.questions import Questions
from ebbtide.app.screens.selecting import SelectingScreen
from ebbtide.app.sentences import in_two_lines
from ebbtide.app.turns_view import TurnsView
from ebbtide.app.warm import import_later
from ebbtide.app.widgets.answer_text import AnswerText
from ebbtide.app.widgets.memory_bar import MemoryBar
from ebbtide.app.widgets.more_below import MoreBelow
from ebbtide.app.widgets.prompt import Prompt
from ebbtide.app.widgets.prompt_area import PromptArea
from ebbtide.app.widgets.queue_list import QueueList
from ebbtide.app.widgets.status_line import HINT_S, NOTE_HINT_S, Status, StatusLine
from ebbtide.app.widgets.transcript import Greeting, Transcript
from ebbtide.app.widgets.turns import Note
from ebbtide.engine.errors import EbbtideError

if TYPE_CHECKING:
    from ebbtide.app.screens.picker import Choice, Find
    from ebbtide.app.slash.registry import Call, Registry

NEAR_ROWS = 4
"""A remark so far above the prompt is seen by who writes there."""
NO_ENGINE = {
    Phase.DIED: "The engine has ended: no memory is in use.",
    Phase.FAILED: "No model is loaded: no memory is in use.",
}


class ChatScreen(SelectingScreen):
    """`session` is the chat, `tools` the world around it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "memory_panel", "Memory panel", priority=True, show=False, id="chat.memory_panel"),
        Binding("pageup", "page(-1)", "Scroll up", priority=True, show=False, id="chat.page_up"),
        Binding("pagedown", "page(1)", "Scroll down", priority=True, show=False, id="chat.page_down"),
        Binding("home,ctrl+home", "to_start", "To the start", show=False, id="chat.to_start"),
        Binding("end,ctrl+end", "to_end", "To the end", show=False, id="chat.to_end"),
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
        self.panel = PanelControl(session.tell)
        self.turns = TurnsView(session, Transcript())
        self.questions = Questions(self)
        self.changes = Changes(self)
        self.events = EngineEvents(self)
        self.elsewhere = Elsewhere(self)
        self.leaving = Leaving(self)
        self._drawing = Drawing(self)
        self._presses = DoublePress()
        self._unseen_hint: tuple[str, float] | None = None
        self._busy_hint = ""

    def compose(self) -> ComposeResult:
        yield self.panel.side
        yield self.turns.transcript
        with Vertical(id="bottom"):
            yield MoreBelow()
            yield PromptArea(self)
            yield StatusLine()
            yield MemoryBar()

    @cached_property
    def registry(self) -> "Registry":
        """What `/` offers."""
        from ebbtide.app.slash.all_commands import REGISTRY  # after the first paint

        return REGISTRY

    @property
    def transcript(self) -> Transcript:
        return self.turns.transcript

    @property
    def prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def area(self) -> PromptArea:
        return self.query_one(PromptArea)

    # --- the start

    async def on_mount(self) -> None:
        self.set_class(self.tools.settings.compact, "-compact")
        if self.tools.settings.reduced_motion or self.app.animation_level == "none":
            self.app.animation_level = "none"
            self.prompt.cursor_blink = False
        self.prompt.focus()
        self._drawing.start()
        self.elsewhere.start()
        self.set_interval(RETRY_S, self.leaving.retry)
        self.watch(self.query_one(StatusLine), "status", self._show_life, init=False)
        # After the first paint: neither the engine nor the store may delay it.
        self.call_after_refresh(self._start)

    def _show_life(self, status: Status) -> None:
        """Without an engine no bar looks as if there were one."""
        self.query_one(MemoryBar).ended = NO_ENGINE.get(status.phase, "")

    async def _start(self) -> None:
        self.session.start()
        import_later()
        collect_rarely()
        await self.guarded(self._restore())

    async def _restore(self) -> None:
        """What was there before: the chat that was asked for, or an offer of the last one; the draft."""
        store = self.session.keeper.store
        self.prompt.load_history(store.history(200)[::-1])
        if store.notice:
            self.note(store.notice)
        if self.tools.chat_id:
            await self.changes.open(self.tools.chat_id)
            return
        last = store.last_open_chat()
        if last is not None:
            self._offer(safe_line(last.title) or "the last chat")
        self.questions.load_queue()
        if not self.prompt.text:  # one that is not shown stays for the next window
            self.prompt.restore_draft(*self.session.keeper.load_draft())

    def _offer(self, title: str) -> None:
        """Tell how to go on with an earlier chat, while this one is empty, in the line left for that."""
        for empty in self.transcript.query(Greeting):
            room = empty.content_size.width - len(OFFER.format(""))
            empty.update(Content(greeting(Content(title).truncate(max(room, 1), ellipsis=True).plain)))

    def on_screen_suspend(self) -> None:
        self.did_something_else()

    async def on_screen_resume(self) -> None:
        self.wake()
        await self._drawing.shown_again()
        if self._unseen_hint is not None:
            self.hint(*self._unseen_hint)

    def wake(self) -> None:
        """Something happens that may be seen: look often for a while (`Drawing`)."""
        self._drawing.wake()

    @property
    def rests(self) -> bool:
        """Nothing happens, and nothing is looked for."""
        return self._drawing.rests

    # --- talking with the person

    def note(self, text: str, kind: str = "info", *, passing: bool = False) -> Note:
        """A remark behind the last turn; a `passing` one goes when something follows it. Where that is not
        near the prompt, because the chat is short or the reader elsewhere, the status line says it too.
        """
        if self.transcript.rows_below > NEAR_ROWS:
            self.hint(_in_a_line(text))
        self.hint_if_away(text)
        note = Note(text, kind, passing=passing)
        self.call_next(self.transcript.add, note)
        return note

    def hint_if_away(self, text: str) -> None:
        """For a remark that comes in behind the last turn: the reader may be elsewhere."""
        if not self.transcript.follows:
            self.hint(text, NOTE_HINT_S)

    def hint(self, text: str, seconds: float = HINT_S) -> None:
        """A remark for a moment, where it covers nothing; said again once a screen over this one goes."""
        self._unseen_hint = None if self.app.screen is self else (text, seconds)
        self.query_one(StatusLine).say(text, seconds)

    def not_busy(self) -> None:
        """An answer has ended: nothing has to wait for it any more."""
        if self._unseen_hint is not None and self._unseen_hint[0] == self._busy_hint:
            self._unseen_hint = None
        if self._busy_hint:
            self.query_one(StatusLine).unsay(self._busy_hint)

    def forget_hint(self) -> None:
        """It was about a chat that is not on the screen any more."""
        self._unseen_hint = None
        self.query_one(StatusLine).say("")

    async def guarded(self, deed: Awaitable[None]) -> None:
        """Do something; a failure that people can understand is shown with its hint."""
        try:
            await deed
        except BusyError as error:
            self._busy_hint = _in_a_line(in_two_lines(error))
            self.hint(self._busy_hint, NOTE_HINT_S)
        except EbbtideError as error:
            self.note(in_two_lines(error), "error", passing=True)

    def pick(
        self,
        title: str,
        rows: "Sequence[Choice] | Find",
        then: Callable[[str], Awaitable[None]],
        typed: str = "",
    ) -> None:
        """Let the person choose a row, then go on with its value."""
        from ebbtide.app.screens.picker import Picker, narrowing  # after the first paint

        async def chosen(value: str | None) -> None:
            if value is not None:
                await self.guarded(then(value))

        find = rows if callable(rows) else narrowing(rows)
        self.app.push_screen(Picker(title, find, typed), chosen)

    def show_help(self) -> None:
        from ebbtide.app.screens.text_page import TextPage  # after the first paint
        from ebbtide.app.slash.help_text import help_text

        self.app.push_screen(TextPage(lambda width: help_text(self.registry, width)))

    async def copy(self, text: str) -> None:
        """Copy and say what is known about it."""
        said = await asyncio.to_thread(copy, text, self.app.copy_to_clipboard)
        self.hint(said)

    async def copy_selection(self) -> bool:
        """Copy what is selected with the mouse, and let go of it. False: nothing is selected."""
        text = self.get_selected_text()
        self.clear_selection()
        if text:
            await self.copy(text)
        return bool(text)

    def set_compact(self, compact: bool) -> None:
        """Less empty space, or as usual; remembered."""
        self.set_class(compact, "-compact")
        for text in self.query(AnswerText):
            text.refresh(layout=True)
        self.tools.remember("compact", compact)

    # --- what the person does

    async def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self.did_something_else()
        call = self.registry.parse(message.text)
        if call is not None:
            self.questions.forget_ways_out()
            await self.guarded(self._call(call, message.text))
        else:
            await self.questions.submit(message.text)
        self.area.save_draft()  # at once: what has been sent is no draft any more

    async def _call(self, call: "Call", text: str) -> None:
        """Run a command. What calls none of them is in the prompt again: it may have been a question."""
        if call.command is None:
            from ebbtide.app.slash.registry import no_such_command

            self.prompt.give_back(text)
            raise no_such_command(call.name, self.registry.nearest(call.name))
        await call.command.run(self, call.argument)

    async def on_prompt_copy_asked(self, message: Prompt.CopyAsked) -> None:
        await self.copy(message.text)

    async def on_prompt_stop_asked(self, message: Prompt.StopAsked) -> None:
        if message.is_ctrl_c and await self.copy_selection():
            return
        if not message.is_ctrl_c and self.get_selected_text():
            self.clear_selection()
        elif self.session.busy:
            await self.questions.stop()
        elif self.area.editing and not message.is_ctrl_c:
            self.area.end_edit()
            self.prompt.take_draft()
        elif message.is_ctrl_c and self.prompt.text:
            self.prompt.take_draft()
        elif message.is_ctrl_c:
            if self.leaving.is_armed or self._is_second_press("ctrl+c", "Ctrl+C again quits."):
                self.leaving.leave("Ctrl+C")
        elif not self.prompt.text and self._is_second_press("escape", "Esc again edits the last question."):
            self.changes.edit_last()

    def did_something_else(self) -> None:
        """No key waits for its second press any more."""
        if self._presses.forget():
            self.hint("")

    def _is_second_press(self, key: str, hint: str) -> bool:
        """At the first press, say what a second one does; until then."""
        again = self._presses.is_second(key)
        self.hint("" if again else hint, DOUBLE_KEY_S)
        return again

    async def on_more_below_clicked(self) -> None:
        await self.action_to_end()

    def on_prompt_quit_asked(self) -> None:
        self.leaving.leave("Ctrl+D")

    def on_mouse_down(self) -> None:
        self.did_something_else()

    def on_text_area_changed(self) -> None:
        self.did_something_else()
        self._drawing.typed()

    def on_queue_list_taken(self, message: QueueList.Taken) -> None:
        self.questions.unqueue(message.index)

    def action_page(self, direction: int) -> None:
        """Scroll the transcript, whatever has the focus."""
        self.did_something_else()
        scroll = self.transcript.scroll_page_up if direction < 0 else self.transcript.scroll_page_down
        scroll(animate=False)

    async def action_to_start(self) -> None:
        await self.transcript.to_start()

    async def action_to_end(self) -> None:
        """The newest is in view again, and stays there as more comes."""
        await self.transcript.to_end()

    async def on_prompt_end_asked(self, message: Prompt.EndAsked) -> None:
        await (self.action_to_start() if message.of_chat == "start" else self.action_to_end())

    def action_memory_panel(self) -> None:
        """Off, side, full."""
        self.did_something_else()
        self.panel.cycle(self)

    # --- what the engine does

    async def on_engine_event(self, message: EngineEvent) -> None:
        if message.from_fetcher:
            await self.events.take_fetcher(message.event)
        elif message.life == self.session.model.life:  # not of an engine that was ended for another load
            await self.events.take(message.event)


def _in_a_line(note: str) -> str:
    """A note of two lines says what is wrong and what to do; a longer one begins with what it is about."""
    lines = note.split("\n")
    if len(lines) == 2:
        return f"{lines[0].removesuffix('.')} · {lines[1]}"
    return lines[0]
