"""A page of plain text to scroll through, over the chat: the help."""

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Key, Paste, Resize
from textual.screen import ModalScreen
from textual.widgets import Static

from ebbtide.app.screens.over_chat import leave_prompt_in_view

MOST_CELLS = 96
"""The page is no wider (see the stylesheet)."""
AROUND = 5
"""Cells of the border, the padding and the scroll bar."""


class TextPage(ModalScreen[None]):
    """Esc, F1 or Enter closes it, and q as the first letter. Other text that is typed reaches the prompt,
    which stays in view where there is room. `text` may be made for a width in cells.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss_page", "Close", show=False)  # after letters that were typed before
        for key in ("escape", "f1", "ctrl+c", "enter")
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"page--title"}

    def __init__(self, text: str | Callable[[int], str], title: str = "Help") -> None:
        super().__init__()
        self._text, self._title = text, title
        self._has_typed = False

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page") as page:
            page.border_title = f"{self._title} · Esc closes"
            page.border_subtitle = "↑ ↓ PageUp PageDown scroll"
            yield Static(markup=False)

    def on_resize(self, event: Resize) -> None:
        """Lines that are not indented are titles."""
        leave_prompt_in_view(self, event.size.height)
        page = self.query_one("#page")
        width = min(event.size.width, MOST_CELLS) - AROUND
        text = self._text if isinstance(self._text, str) else self._text(width)
        style = self.get_visual_style("page--title")
        lines = [
            Content(line) if not line or line.startswith(" ") else Content.styled(line, style)
            for line in text.split("\n")
        ]
        page.query_one(Static).update(Content("\n").join(lines))

    def on_key(self, event: Key) -> None:
        """Letters go to what has the focus on the screen behind."""
        if not event.is_printable:
            return
        event.stop()
        if event.character == "q" and not self._has_typed:
            self.dismiss(None)
        else:
            self._has_typed = True
            self._pass_on(Key(event.key, event.character))

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._has_typed = True
        self._pass_on(Paste(event.text))

    def _pass_on(self, event: Key | Paste) -> None:
        behind = self.app.screen_stack[-2].focused
        if behind is not None:
            behind.post_message(event)

    def action_dismiss_page(self) -> None:
        self.dismiss(None)
