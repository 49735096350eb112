"""A page of plain text to scroll through, over the chat: the help."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Key, Paste
from textual.screen import ModalScreen
from textual.widgets import Static


class TextPage(ModalScreen[None]):
    """Esc, F1 or Enter closes it, and q as the first letter. Other text that is typed reaches the prompt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss_page", "Close", show=False)  # after letters that were typed before
        for key in ("escape", "f1", "ctrl+c", "enter")
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"page--title"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._has_typed = False

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="page") as page:
            page.border_title = "Esc closes"
            yield Static(markup=False)

    def on_mount(self) -> None:
        """Lines that are not indented are titles."""
        style = self.get_visual_style("page--title")
        lines = [
            Content(line) if not line or line.startswith(" ") else Content.styled(line, style)
            for line in self._text.split("\n")
        ]
        self.query_one(Static).update(Content("\n").join(lines))

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
