"""The scrolling list of turns. It follows the answer until the reader scrolls up, then it stays there."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.app.widgets.turns import AnswerTurn, Note, UserTurn

GREETING = """\
░░▒▒▓▓██▓▓▒▒░░   e b b t i d e   ░░▒▒▓▓██▓▓▒▒░░

Weights and context share one budget.

Ask something: Enter sends, Ctrl+J breaks the line, /help tells the rest."""


class Greeting(Static):
    """What an empty chat shows."""

    def __init__(self) -> None:
        super().__init__(Content(GREETING), markup=False)


class Transcript(VerticalScroll):
    """Holds UserTurn, AnswerTurn and Note widgets in order."""

    can_focus = False

    def compose(self) -> ComposeResult:
        yield Greeting()

    def on_mount(self) -> None:
        for size in ("virtual_size", "container_size"):
            self.watch(self, size, self._size_changed)

    def _size_changed(self) -> None:
        """Both sizes are right only after the layout."""
        self.call_after_refresh(self._anchor_if_longer_than_view)

    def _anchor_if_longer_than_view(self) -> None:
        """A short chat stands at the top; an anchored one would be pushed down to the prompt."""
        longer = self.max_scroll_y > 0
        if longer != self.is_anchored:
            self.anchor(longer)
            if not longer:
                self.scroll_to(y=0, animate=False, immediate=True, force=True)

    async def add(self, turn: UserTurn | AnswerTurn | Note) -> None:
        """Append a turn. A question brings the end into view again."""
        for greeting in self.query(Greeting):
            await greeting.remove()
        await self.mount(turn)
        if isinstance(turn, UserTurn):
            self.scroll_end(animate=False)

    async def clear(self) -> None:
        """Back to an empty chat."""
        await self.remove_children()
        await self.mount(Greeting())

    @property
    def turns(self) -> list[Widget]:
        return [child for child in self.children if isinstance(child, UserTurn | AnswerTurn | Note)]
