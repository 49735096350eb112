"""The line below the transcript that says that it goes on, while the reader is elsewhere."""

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.reactive import reactive

from ebbtide.app.widgets.ornament import Ornament

MORE = "↓ more below"
KEY, KEY_WHILE_WRITING = "End", "Ctrl+End"
"""Where something is written, End goes to the end of its line."""


class MoreBelow(Ornament):
    """Takes a row only while there is something to say, so that it covers no text. A click goes there too."""

    class Clicked(Message):
        """The person wants to see the end."""

    is_writing: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def on_mount(self) -> None:
        self.watch_is_writing()

    def watch_is_writing(self) -> None:
        self.update(Content(f"{MORE} · {KEY_WHILE_WRITING if self.is_writing else KEY}"))

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Clicked())
