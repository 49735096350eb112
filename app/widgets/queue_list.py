"""Questions that wait until the answer before them has ended."""

from dataclasses import dataclass

from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from ebbtide.app.safe_text import safe_line

MOST_LISTED = 4
"""Lines under the first one; the stylesheet gives the list no more."""


class QueueList(Static):
    """What can be done, then a line for each question; a click takes one back.

    Where there is little room, the first lines are what is seen.
    """

    @dataclass
    class Taken(Message):
        """The person wants this question back."""

        index: int

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False
        self._listed = 0
        """So many questions have a line of their own."""

    def show(self, questions: list[str], *, held: bool) -> None:
        """`held`: the last answer was stopped, so that the next question waits for the person."""
        how = (
            "held: Enter sends the next, Up takes the last back"
            if held
            else "queued · Up takes the last back"
        )
        lines = [f"{number}. {safe_line(text)}" for number, text in enumerate(questions, start=1)]
        self._listed = min(len(lines), MOST_LISTED if len(lines) <= MOST_LISTED else MOST_LISTED - 1)
        if self._listed < len(lines):
            lines[self._listed :] = [f"and {len(lines) - self._listed} more"]
        self.update(Content("\n".join([f"{len(questions)} {how}", *lines])))
        self.display = bool(questions)

    def on_click(self, event: Click) -> None:
        event.stop()
        if 0 < event.y <= self._listed:
            self.post_message(self.Taken(event.y - 1))
