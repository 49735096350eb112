"""The line that has the focus while a turn is chosen, and says what can be done with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

Deed = Literal[
    "older", "newer", "edit", "regenerate", "fork", "copy", "previous", "next", "unfold", "leave out", "leave"
]

AROUND_CELLS = 6
"""What stands beside its text: its own padding and that of its place."""


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
        self._parts: Sequence[str] = ()

    def say(self, parts: Sequence[str]) -> None:
        """Show the keys, in as many rows as they need."""
        self._parts = parts
        lines: list[str] = []
        for part in parts:
            longer = f"{lines[-1]}  {part}" if lines else part
            if lines and cell_len(longer) > max(self.app.size.width - AROUND_CELLS, 1):
                lines.append(part)
            else:
                lines[-1:] = [longer]
        self.update(Content("\n".join(lines)))

    def on_resize(self) -> None:
        if self._parts:
            self.say(self._parts)

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
