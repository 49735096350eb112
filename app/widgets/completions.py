"""The list above the prompt: commands after `/`, files after `@`."""

from typing import ClassVar, NamedTuple

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ebbtide.app.safe_text import safe_line

MOST_ROWS = 8
NONE = -1
"""No row is marked."""


class Completion(NamedTuple):
    """One row: what would be written, and what it means."""

    text: str
    meaning: str = ""
    replaces: int = 0
    """So many characters before the cursor make way for it."""


class Completions(Widget):
    """Draws the rows; marks the one that Enter takes, if there is one. Knows nothing of the prompt."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"completion--text", "completion--meaning", "completion--chosen"}

    rows: reactive[tuple[Completion, ...]] = reactive((), layout=True)
    at: reactive[int] = reactive(NONE)

    def on_mount(self) -> None:
        self.display = False

    def show(self, rows: list[Completion], marked: int = NONE) -> None:
        """Show these rows, and mark one; none hides the list. Where only meanings change, the mark stays."""
        fresh = tuple(rows[:MOST_ROWS])
        if fresh != self.rows:
            same = [row.text for row in fresh] == [row.text for row in self.rows]
            self.rows, self.at = fresh, self.at if same else marked
            self.display = bool(fresh)

    @property
    def marked(self) -> Completion | None:
        return self.rows[self.at] if self.rows and self.at != NONE else None

    def move(self, step: int) -> None:
        """Mark the next row, or the one before; without a mark, the first or the last."""
        if self.rows:
            before = NONE if step > 0 else len(self.rows)
            self.at = ((self.at if self.at != NONE else before) + step) % len(self.rows)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self.rows)

    def render(self) -> Content:
        width = self.content_size.width
        column = min(max((len(row.text) for row in self.rows), default=0), max(width // 2, 8))
        first = max(self.at - max(self.content_size.height, 1) + 1, 0)  # the chosen row is always seen
        rows = list(enumerate(self.rows))[first:]
        return Content("\n").join(self._row(index, row, column, width) for index, row in rows)

    def _row(self, index: int, row: Completion, column: int, width: int) -> Content:
        chosen = index == self.at
        text = Content(("▸ " if chosen else "  ") + safe_line(row.text)).truncate(column + 2, ellipsis=True)
        gap = " " * max(column + 4 - text.cell_length, 1)
        style = self.get_visual_style("completion--chosen" if chosen else "completion--text")
        line = Content.assemble(
            (text.plain, style), gap, (row.meaning, self.get_visual_style("completion--meaning"))
        )
        return line.truncate(width, ellipsis=True)
