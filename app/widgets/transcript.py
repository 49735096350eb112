"""The scrolling list of turns. It follows the answer until the reader scrolls up, then it stays there."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.app.widgets.turns import AnswerTurn, Note, UserTurn

GREETING = """\
    ~^~.
 ~^~    `~^~.__.~^~.     ebbtide
              `     `~   weights and context share one budget"""
FIRST_STEPS = "Ask something. Enter sends, Ctrl+J begins a new line, /help tells the rest."


class Greeting(Static):
    """What an empty chat shows."""

    def __init__(self) -> None:
        super().__init__(Content(f"{GREETING}\n\n{FIRST_STEPS}"), markup=False)


class Transcript(VerticalScroll):
    """Holds UserTurn, AnswerTurn and Note widgets in order."""

    can_focus = False

    def compose(self) -> ComposeResult:
        yield Greeting()

    def on_mount(self) -> None:
        self.anchor()

    async def add(self, turn: UserTurn | AnswerTurn | Note) -> None:
        """Append a turn. A question brings the end into view again."""
        for greeting in self.query(Greeting):
            await greeting.remove()
        await self.mount(turn)
        if isinstance(turn, UserTurn):
            self.anchor()

    async def clear(self) -> None:
        """Back to an empty chat."""
        await self.remove_children()
        await self.mount(Greeting())
        self.anchor()

    @property
    def turns(self) -> list[Widget]:
        return [child for child in self.children if isinstance(child, UserTurn | AnswerTurn | Note)]
