"""The line below the transcript that says that it goes on, while the reader is elsewhere."""

from textual.content import Content
from textual.widgets import Static

MORE = "↓ more below · End"


class MoreBelow(Static):
    """Takes a row only while there is something to say, so that it covers no text."""

    def __init__(self) -> None:
        super().__init__(Content(MORE), markup=False)
        self.display = False
