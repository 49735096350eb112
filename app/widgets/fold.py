"""A line that tells what of a question is folded away; a click unfolds it."""

from textual.content import Content
from textual.events import Click
from textual.message import Message

from ebbtide.app.safe_text import visible
from ebbtide.app.widgets.ornament import Ornament


class Fold(Ornament):
    """Not there while there is nothing to tell."""

    class Toggled(Message):
        """The person clicked on it."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(markup=False)
        self.show(lines)

    def show(self, lines: list[str]) -> None:
        self.update(Content("\n".join(visible(line) for line in lines)))
        self.display = bool(lines)

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Toggled())
