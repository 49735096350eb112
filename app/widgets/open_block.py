"""The end of an answer that still grows, as plain text."""

from textual.content import Content
from textual.widgets import Static

from ebbtide.app.widgets.settled_size import SettledSize


class OpenBlock(SettledSize, Static):
    """Most words change its last line only: then nothing else on the screen has to be laid out again."""

    def __init__(self) -> None:
        super().__init__(markup=False, classes="open-block")
        self._shown = ""

    def on_mount(self) -> None:
        self.display = bool(self._shown.strip())

    def show(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            content = Content(text)
            self.update(content, layout=not self._keeps_height(content))
            self.display = bool(text.strip())

    def _keeps_height(self, content: Content) -> bool:
        width, height = self.content_size
        return self.display and width > 0 and content.get_height({}, width) == height
