"""A page of plain text to scroll through, over the chat: the help."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static


class TextPage(ModalScreen[None]):
    """Esc, q or F1 closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss_page", "Close", show=False, priority=True)
        for key in ("escape", "q", "f1", "ctrl+c", "enter")
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"page--title"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page"):
            yield Static(markup=False)

    def on_mount(self) -> None:
        """Lines that are not indented are titles."""
        style = self.get_visual_style("page--title")
        lines = [
            Content(line) if not line or line.startswith(" ") else Content.styled(line, style)
            for line in self._text.split("\n")
        ]
        self.query_one(Static).update(Content("\n").join(lines))

    def action_dismiss_page(self) -> None:
        self.dismiss(None)
