"""The line that has the focus while a turn is chosen, and says what can be done with it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

Deed = Literal[
    "older", "newer", "edit", "regenerate", "fork", "copy", "previous", "next", "unfold", "leave out", "leave"
]


class TurnChooser(Static):
    """Turns keys into deeds; any other letter leaves and goes to the prompt."""

    can_focus = True
    DEEDS: ClassVar[dict[str, Deed]] = {
        "up": "older",
        "ctrl+up": "older",
        "alt+up": "older",
        "k": "older",
        "down": "newer",
        "ctrl+down": "newer",
        "alt+down": "newer",
        "j": "newer",
        "e": "edit",
        "r": "regenerate",
        "f": "fork",
        "c": "copy",
        "y": "copy",
        "ctrl+c": "copy",
        "left": "previous",
        "right": "next",
        "enter": "unfold",
        "space": "unfold",
        "x": "leave out",
        "escape": "leave",
        "q": "leave",
        "tab": "leave",
    }

    @dataclass
    class Chosen(Message):
        """The person wants this done with the chosen turn."""

        deed: Deed

    @dataclass
    class BlockWanted(Message):
        """A digit: copy the code block of that number."""

        number: int

    @dataclass
    class Typed(Message):
        """Something for the prompt."""

        character: str

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def say(self, text: str) -> None:
        self.update(Content(text))

    def on_key(self, event: events.Key) -> None:
        deed = self.DEEDS.get(event.key)
        if deed is not None:
            self.post_message(self.Chosen(deed))
        elif event.key.isdecimal():
            self.post_message(self.BlockWanted(int(event.key)))
        elif event.is_printable and event.character:
            self.post_message(self.Typed(event.character))
        else:
            return
        event.stop()
        event.prevent_default()
