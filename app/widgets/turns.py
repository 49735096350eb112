"""What stands in the transcript: a question, an answer, a note.

Each can make a fresh, unmounted copy of itself (`fresh`), because a long transcript mounts only what is near.
"""

import asyncio
from typing import ClassVar, NamedTuple, Self

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import MountError
from textual.widgets import Static

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.clipboard import amount_of
from ebbtide.app.conversation import Message, Version
from ebbtide.app.files.mentions import split_files
from ebbtide.app.safe_text import visible
from ebbtide.app.widgets.answer_text import AnswerText
from ebbtide.app.widgets.fold import Fold
from ebbtide.app.widgets.ornament import Ornament
from ebbtide.app.widgets.settled_size import SettledSize
from ebbtide.app.widgets.thinking_fold import ThinkingFold

CHARACTERS_OF_ONE = 500
"""So much text weighs as much as a short turn: about five blocks."""
SHOWN_LINES, SHOWN_CHARACTERS = 40, 6_000
"""A longer question (a paste, a file) is shown cut until it is unfolded."""


STOPPED = "Stopped."
"""Below an answer that the person has stopped, or left."""


class Spot(NamedTuple):
    """A place in a turn at every width: so many letters of its text are above, or a share of its rows."""

    letters: int = 0
    share: float | None = None


class Entry(SettledSize, Vertical):
    """Common to all: the message behind it, and a last line about its version and whether it is sent."""

    def __init__(self, message: Message | None = None) -> None:
        super().__init__()
        self.message = message
        self.version = Version(1, 1)
        self._has_parts = False
        # Made when there is something to say: most turns never need it, and every widget costs time.
        self._meta: Ornament | None = None

    def fresh(self) -> Self:
        """An equal entry that is not mounted."""
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """What it costs to have it mounted; 1 for a short one."""
        return 1

    def toggle(self) -> None:
        """Show or hide what is folded."""

    def spot_at(self, row: int) -> Spot:
        """The place at the start of a row."""
        return Spot(share=row / max(self.outer_size.height, 1))

    def row_of(self, spot: Spot) -> int:
        """The row in which a place is now."""
        return round((spot.share or 0.0) * self.outer_size.height)

    def set_version(self, version: Version) -> None:
        self.version = version
        if self._has_parts:
            self._draw_meta()

    def on_mount(self) -> None:
        self._has_parts = True
        self._draw_meta()

    def _draw_meta(self) -> None:
        parts = []
        if self.version.total > 1:
            parts.append(f"◂ {self.version.number}/{self.version.total} ▸")
        left_out = self.message is not None and self.message.left_out
        self.set_class(left_out, "-left-out")
        if left_out:
            parts.append("not sent to the model")
        if self.message is not None and self.message.cut_off:
            parts.append("cut off: ebbtide ended while it was written")
        if self.message is not None and self.message.stopped:
            parts.append(STOPPED)
        if self.message is not None and self.message.is_growing:
            parts.append("being written in another window")
        if parts and self._meta is None:
            self._meta = Ornament(markup=False, classes="meta")
            self.mount(self._meta)
        if self._meta is not None:
            self._meta.update(Content("   ".join(parts)))
            self._meta.display = bool(parts)


class UserTurn(Entry):
    """What the person wrote, verbatim. Until it is unfolded, a very long text is cut, and files that were
    sent along are a line each.
    """

    def __init__(self, text: str, message: Message | None = None, *, unfolded: bool = False) -> None:
        super().__init__(message)
        self.text = text
        self.unfolded = unfolded

    def compose(self) -> ComposeResult:
        text, folded = self._shown()
        yield Static(Content(text), markup=False, classes="text")
        if folded:
            yield Fold(folded)

    def fresh(self) -> "UserTurn":
        copy = UserTurn(self.text, self.message, unfolded=self.unfolded)
        copy.version = self.version
        return copy

    def toggle(self) -> None:
        self.unfolded = not self.unfolded
        text, folded = self._shown()
        self.query_one(".text", Static).update(Content(text))
        for fold in self.query(Fold):
            fold.show(folded)

    def on_fold_toggled(self, message: Fold.Toggled) -> None:
        message.stop()
        self.toggle()

    def _shown(self) -> tuple[str, list[str]]:
        """The text, and lines about what is folded, or can be folded again."""
        written, files = split_files(self.text)
        lines = written.split("\n")
        cut = "\n".join(lines[:SHOWN_LINES])[:SHOWN_CHARACTERS]
        is_cut = len(cut) < len(written)
        if self.unfolded:
            return visible(self.text), ["▾ fold"] if files or is_cut else []
        folded = [f"▸ {file.name}, {amount_of(file.content)}" for file in files]
        if is_cut:
            hidden = len(lines) - cut.count("\n") - 1
            rest = f"{hidden:,} more lines" if hidden else f"{len(written) - len(cut):,} more characters"
            folded.insert(0, f"… {rest}")
        return visible(cut), folded


class Note(Entry):
    """A remark of the program; `kind` is "info" or "error".

    A `passing` one is of no use any more when something follows it, and makes way.
    """

    SIGNS: ClassVar[dict[str, str]] = {"info": "·", "error": "✗"}
    """In front of the text, where turns have a bar or nothing: told apart without colours too."""

    def __init__(self, text: str, kind: str = "info", *, passing: bool = False) -> None:
        super().__init__()
        self.text, self.kind, self.passing = text, kind, passing
        self.add_class(f"-{kind}")

    def compose(self) -> ComposeResult:
        yield Ornament(self.SIGNS[self.kind], markup=False, classes="sign")
        yield Static(Content(visible(self.text)), markup=False, classes="text")

    def fresh(self) -> "Note":
        return Note(self.text, self.kind, passing=self.passing)


class AnswerTurn(Entry):
    """An answer, also while it streams: closed blocks as Markdown, the open one as plain text below."""

    def __init__(self, content: AnswerContent | None = None, message: Message | None = None) -> None:
        super().__init__(message)
        self.content = content or AnswerContent()
        self._thinking: ThinkingFold | None = None
        self._unfolded = False
        self._taken = 0
        self._epoch = 0
        self._drawing = asyncio.Lock()
        self.is_whole = False
        """Drawn to its end: there is nothing left to do."""

    def compose(self) -> ComposeResult:
        self.text = AnswerText()  # not before: a chat keeps turns that are not mounted
        yield self.text

    @property
    def weight(self) -> int:
        return 1 + len(self.content.answer) // CHARACTERS_OF_ONE

    def fresh(self) -> "AnswerTurn":
        copy = AnswerTurn(self.content, self.message)
        copy.version = self.version
        copy._unfolded = self._unfolded
        return copy

    def on_mount(self) -> None:
        super().on_mount()
        self.call_next(self.draw)

    def toggle(self) -> None:
        self._unfolded = not self._unfolded
        if self._thinking is not None:
            self._thinking.unfold(self._unfolded)

    def spot_at(self, row: int) -> Spot:
        above = self.text.virtual_region.y
        return Spot(share=row / above) if row < above else Spot(self.text.letters_above(row - above))

    def row_of(self, spot: Spot) -> int:
        above = self.text.virtual_region.y
        return above + self.text.row_with(spot.letters) if spot.share is None else round(spot.share * above)

    def push(self, text: str, tokens: int = 0) -> None:
        """Take text; nothing is drawn before `draw`."""
        self.content.push(text, tokens)

    async def finish(self) -> None:
        """The answer has ended, in whatever way: render all of it."""
        self.content.end()
        await self.draw()

    async def draw(self) -> None:
        """Show what has come since the last call; nothing in between is ever on the screen."""
        async with self._drawing:
            if self._has_parts and not self.is_whole and self.is_attached:
                await self._draw_news()

    async def _draw_news(self) -> None:
        ended = self.content.ended  # it may end while this is drawn; then the next call draws the rest
        with self.app.batch_update():
            if self._epoch != self.content.epoch:  # what was shown as answer was thinking
                self._epoch, self._taken = self.content.epoch, 0
                self.text.start_over()
            await self._draw_thinking()
            text, self._taken = self.content.answer[self._taken :], len(self.content.answer)
            self.text.push(text)
            if ended:
                self.text.end()
            self.text.draw()
        self.is_whole = ended

    async def _draw_thinking(self) -> None:
        if self._thinking is None and (self.content.is_thinking or self.content.thinking.strip()):
            self._thinking = ThinkingFold(self.content, unfolded=self._unfolded)
            try:
                await self.mount(self._thinking, before=0)
            except MountError:
                # Taken from the screen in the middle: a fresh turn draws itself from the start.
                if self.text.is_attached:
                    raise
        elif self._thinking is not None:
            self._thinking.draw()

    def on_thinking_fold_toggled(self, message: ThinkingFold.Toggled) -> None:
        message.stop()
        self.toggle()
