"""The multi-line prompt: Enter sends, Ctrl+J breaks the line, Up recalls, Ctrl+C never loses a draft."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from textual import events
from textual.message import Message

from ebbtide.app.greeting import PLACEHOLDER
from ebbtide.app.pastes import Pastes
from ebbtide.app.quotes import is_open_quote, without_quotes
from ebbtide.app.safe_text import safe
from ebbtide.app.widgets.resting_area import RestingArea

LAST_UNDO_S = 1.0
"""So soon after something was undone, Ctrl+Z is meant to undo too."""
Wish = Literal[
    "search history",
    "open editor",
    "select older",
    "select newer",
    "unqueue",
    "send next",
    "palette",
    "help",
    "compare",
    "models",
    "resume",
    "suspend",
]
"""What a key of the prompt asks the screen to do."""


class Completer(Protocol):
    """Looks after the completions. It is called and not sent messages: keys that came together with one would
    be worked off before it is answered.
    """

    def move_completion(self, step: int) -> None:
        """Choose the next one, or the one before."""
        ...

    def take_completion(self, *, by_enter: bool) -> bool:
        """Write what is chosen into the prompt; whether the text is to be sent now."""
        ...

    def close_completions(self) -> None:
        """Show none until the text changes."""
        ...


class Prompt(RestingArea):
    """Posts what the person wants; knows nothing of the chat."""

    ACTIONS: ClassVar[dict[str, str]] = {
        "enter": "submit",
        "ctrl+j": "break_line",
        "shift+enter": "break_line",
        "alt+enter": "break_line",
        "tab": "complete",
        "up": "older",
        "down": "newer",
        "escape": "stop",
        "ctrl+c": "interrupt",
        "ctrl+d": "end",
        "backspace": "erase",
        "home": "line_or_chat('start')",
        "end": "line_or_chat('end')",
        "ctrl+home": "chat('start')",
        "ctrl+end": "chat('end')",
        "ctrl+r": "wish('search history')",
        "ctrl+g": "wish('open editor')",
        "ctrl+up": "wish('select older')",
        "alt+up": "wish('select older')",
        "ctrl+down": "wish('select newer')",
        "alt+down": "wish('select newer')",
        "ctrl+p": "wish('palette')",
        "ctrl+o": "wish('resume')",
        "ctrl+z": "undo_or_suspend",
        "f1": "wish('help')",
        "f3": "wish('compare')",
        "f4": "wish('models')",
    }
    """What keys do here; those of `TextArea` (arrows, Home ...) stay as they are. The prompt takes
    both itself, in the order in which they were typed. As bindings they would be run by the application:
    before letters that still wait in the prompt's queue, or after letters that were typed later."""

    @dataclass
    class Submitted(Message):
        """The person sent this text; chips of pastes are put back in."""

        text: str

    @dataclass
    class StopAsked(Message):
        """Esc, or Ctrl+C with nothing to copy in the prompt; Ctrl+C copies what is selected elsewhere, else
        stops an answer, else clears the prompt, else quits.
        """

        is_ctrl_c: bool

    @dataclass
    class CopyAsked(Message):
        """Ctrl+C where some of the prompt is selected."""

        text: str

    @dataclass
    class EndAsked(Message):
        """An end of the chat is wanted in view."""

        of_chat: Literal["start", "end"]

    class QuitAsked(Message):
        """Ctrl+D on an empty prompt."""

    @dataclass
    class Wished(Message):
        """A key that the screen handles."""

        wish: Wish

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            placeholder=PLACEHOLDER,
            highlight_cursor_line=False,
        )
        self.completing = False
        """Completions are shown: arrows, Tab, Enter and Esc belong to them."""
        self.completer: Completer | None = None
        self.can_unqueue = False
        """A question waits in the queue: Up on an empty prompt takes it back."""
        self.enter_awaited = False
        """Enter means something even where nothing is written."""
        self.pastes = Pastes()
        self._history: list[str] = []
        self._at = 0
        self._draft = ""
        self._undone_at = float("-inf")

    async def _on_key(self, event: events.Key) -> None:
        action = self.ACTIONS.get(event.key) or self._bound_action(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            await self.run_action(action)

    def _bound_action(self, key: str) -> str | None:
        """What `TextArea` binds to `key`."""
        return next((binding.action for binding in self._bindings.key_to_bindings.get(key, ())), None)

    # --- what it holds

    @property
    def whole_text(self) -> str:
        """The text with the pastes that its chips stand for."""
        return self.pastes.expand(self.text)

    @property
    def sent_before(self) -> list[str]:
        """What was sent or put aside, oldest first, chips as chips."""
        return list(self._history)

    def load_history(self, texts: list[str]) -> None:
        """What earlier chats sent, oldest first."""
        self._history = [self.pastes.fold(text) for text in texts]
        self._at = len(self._history)

    def remember(self, text: str) -> None:
        """Put `text` one Up away."""
        if text.strip() and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._at = len(self._history)
        self._draft = ""

    def put(self, text: str) -> None:
        """Show this text, with the cursor at its end; what was there is one Up away."""
        self.remember(self.text)
        self.text = self.pastes.fold(safe(text))
        self.move_cursor(self.document.end)

    def restore_draft(self, text: str, pastes: Sequence[tuple[int, int]] = ()) -> None:
        """Show a saved draft, unless something has been typed by now. `pastes`: its parts that were chips."""
        if text and not self.text:
            self.text = safe(self.pastes.with_chips(text, pastes))
            self.move_cursor(self.document.end)

    def give_back(self, text: str) -> str:
        """Show a text that was sent, in front of what has been typed by now; returns what was put in."""
        if not text:
            return ""
        front = self.pastes.fold(safe(text)) + ("\n" if self.text else "")
        self.text = front + self.text
        self.move_cursor(self.document.end)
        return front

    def take_out(self, front: str) -> None:
        """Undo `give_back`."""
        self.text = self.text.removeprefix(front)
        self.move_cursor(self.document.end)

    def take_draft(self) -> None:
        """Clear the prompt; its text is one Up away."""
        self.remember(self.text)
        self.text = ""

    def text_before_cursor(self) -> str:
        """The part of the current line that is before the cursor."""
        row, column = self.cursor_location
        return str(self.document.get_line(row)[:column])

    def replace_before_cursor(self, length: int, text: str) -> None:
        """Put `text` in the place of the `length` characters before the cursor."""
        row, column = self.cursor_location
        self.replace(text, (row, column - length), (row, column), maintain_selection_offset=False)

    @property
    def _completer(self) -> "Completer | None":
        """Whom keys belong to while completions are shown."""
        return self.completer if self.completing else None

    # --- keys

    def action_submit(self) -> None:
        if self._completer is None or self._completer.take_completion(by_enter=True):
            self.submit()

    def submit(self) -> None:
        """Send what is there, if it is anything."""
        text = self.whole_text
        if is_open_quote(text):
            self.insert("\n")
        elif text.strip():
            self.take_draft()
            self.post_message(self.Submitted(without_quotes(text)))
        elif self.can_unqueue or self.enter_awaited:
            self.post_message(self.Wished("send next"))

    def action_complete(self) -> None:
        if self._completer is not None:
            self._completer.take_completion(by_enter=False)

    def action_break_line(self) -> None:
        self.insert("\n")

    def action_stop(self) -> None:
        if self._completer is not None:
            self._completer.close_completions()
        else:
            self.post_message(self.StopAsked(is_ctrl_c=False))

    def action_interrupt(self) -> None:
        if self.selected_text:
            self.post_message(self.CopyAsked(self.selected_text))
        else:
            self.post_message(self.StopAsked(is_ctrl_c=True))

    def action_end(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.QuitAsked())

    def action_erase(self) -> None:
        """Backspace; a chip goes as a whole."""
        chip = "" if self.selected_text else self.pastes.chip_before(self.text_before_cursor())
        if chip:
            self.replace_before_cursor(len(chip), "")
        else:
            self.action_delete_left()

    def action_line_or_chat(self, end: Literal["start", "end"]) -> None:
        """Home and End move in the line, or in the chat where nothing is written."""
        if not self.text:
            self.action_chat(end)
        elif end == "start":
            self.action_cursor_line_start()
        else:
            self.action_cursor_line_end()

    def action_chat(self, end: Literal["start", "end"]) -> None:
        self.post_message(self.EndAsked(end))

    def action_undo_or_suspend(self) -> None:
        """Undo; where there is nothing to undo, as terminals do. Not at the end of a row of undos."""
        now = time.monotonic()
        if self.history.undo_stack:
            self._undone_at = now
            self.action_undo()
        elif now - self._undone_at > LAST_UNDO_S:
            self.post_message(self.Wished("suspend"))

    def action_wish(self, wish: Wish) -> None:
        self.post_message(self.Wished(wish))

    def action_older(self) -> None:
        """Up on the first line walks back through what was sent."""
        if self._completer is not None:
            self._completer.move_completion(-1)
        elif not self.text and self.can_unqueue:
            self.post_message(self.Wished("unqueue"))
        elif self.cursor_location[0] > 0 or self._at == 0:
            self.action_cursor_up()
        else:
            if self._at == len(self._history):
                self._draft = self.text
            self._show(self._at - 1)

    def action_newer(self) -> None:
        if self._completer is not None:
            self._completer.move_completion(1)
        elif self.cursor_location[0] < self.document.line_count - 1 or self._at >= len(self._history):
            self.action_cursor_down()
        else:
            self._show(self._at + 1)

    def _show(self, position: int) -> None:
        self._at = position
        self.text = self._history[position] if position < len(self._history) else self._draft
        self.move_cursor(self.document.end)
        if self.completer is not None:
            self.completer.close_completions()  # the arrows go on in the history until something is typed

    async def _on_paste(self, event: events.Paste) -> None:
        """Pasted control characters would reach the terminal again when they are drawn."""
        event.prevent_default()
        event.stop()
        text = safe(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        self.insert(self.pastes.collapse(text))
