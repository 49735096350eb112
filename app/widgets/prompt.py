"""The multi-line prompt: Enter sends, Ctrl+J breaks the line, Up recalls, Ctrl+C never loses a draft."""

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from ebbtide.app.safe_text import safe


class Prompt(TextArea):
    """Posts `Submitted`, `StopAsked` and `QuitAsked`; knows nothing of the chat."""

    ACTIONS: ClassVar[dict[str, str]] = {
        "enter": "submit",
        "ctrl+j": "break_line",
        "shift+enter": "break_line",
        "alt+enter": "break_line",
        "up": "older",
        "down": "newer",
        "escape": "stop",
        "ctrl+c": "interrupt",
        "ctrl+d": "end",
    }
    """What keys do here; those of `TextArea` (arrows, Backspace, Home ...) stay as they are. The prompt takes
    both itself, in the order in which they were typed. As bindings they would be run by the application:
    before letters that still wait in the prompt's queue, or after letters that were typed later."""

    @dataclass
    class Submitted(Message):
        """The person sent this text."""

        text: str

    @dataclass
    class StopAsked(Message):
        """Esc, or Ctrl+C with nothing to copy; Ctrl+C stops an answer, else clears the prompt, else quits."""

        is_ctrl_c: bool

    class QuitAsked(Message):
        """Ctrl+D on an empty prompt."""

    def __init__(self) -> None:
        super().__init__(
            soft_wrap=True,
            show_line_numbers=False,
            tab_behavior="focus",
            compact=True,
            placeholder="Ask about code ...",
            highlight_cursor_line=False,
        )
        self._history: list[str] = []
        self._at = 0
        self._draft = ""

    async def _on_key(self, event: events.Key) -> None:
        action = self.ACTIONS.get(event.key) or self._bound_action(event.key)
        if action is not None:
            event.stop()
            event.prevent_default()
            await self.run_action(action)

    def _bound_action(self, key: str) -> str | None:
        """What `TextArea` binds to `key`."""
        return next((binding.action for binding in self._bindings.key_to_bindings.get(key, ())), None)

    def remember(self, text: str) -> None:
        """Put `text` one Up away."""
        if text.strip() and (not self._history or self._history[-1] != text):
            self._history.append(text)
        self._at = len(self._history)
        self._draft = ""

    def take_draft(self) -> None:
        """Clear the prompt; its text is one Up away."""
        self.remember(self.text)
        self.text = ""

    def action_submit(self) -> None:
        text = self.text
        if text.strip():
            self.take_draft()
            self.post_message(self.Submitted(text))

    def action_break_line(self) -> None:
        self.insert("\n")

    def action_stop(self) -> None:
        self.post_message(self.StopAsked(is_ctrl_c=False))

    def action_interrupt(self) -> None:
        if self.selected_text:
            self.action_copy()
        else:
            self.post_message(self.StopAsked(is_ctrl_c=True))

    def action_end(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(self.QuitAsked())

    def action_older(self) -> None:
        """Up on the first line walks back through what was sent."""
        if self.cursor_location[0] > 0 or self._at == 0:
            self.action_cursor_up()
            return
        if self._at == len(self._history):
            self._draft = self.text
        self._show(self._at - 1)

    def action_newer(self) -> None:
        if self.cursor_location[0] < self.document.line_count - 1 or self._at >= len(self._history):
            self.action_cursor_down()
            return
        self._show(self._at + 1)

    def _show(self, position: int) -> None:
        self._at = position
        self.text = self._history[position] if position < len(self._history) else self._draft
        self.move_cursor(self.document.end)

    async def _on_paste(self, event: events.Paste) -> None:
        """Pasted control characters would reach the terminal again when they are drawn."""
        event.prevent_default()
        event.stop()
        self.insert(safe(event.text.replace("\r\n", "\n").replace("\r", "\n")))
