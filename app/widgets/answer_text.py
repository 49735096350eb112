"""The text of an answer, also while it streams: one widget, however many blocks there are.

A widget for each block costs a third of a millisecond in every layout, and 40 KiB.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

from rich.segment import Segment
from textual.content import Content
from textual.events import Click
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from ebbtide.app.markdown_parts import PartSplitter
from ebbtide.app.rendering.document import Document
from ebbtide.app.rendering.rows import Look, Row, letters_of, marked_parts, text_between
from ebbtide.app.safe_text import visible
from ebbtide.app.widgets.answer_inks import AnswerInks
from ebbtide.app.widgets.settled_size import SettledSize


class AnswerText(SettledSize, Widget):
    """Takes text with `push`; `draw` puts on the screen what has come. It stands in AnswerInks,
    which know how the rows look.
    """

    def __init__(self) -> None:
        super().__init__()
        self._splitter = PartSplitter()
        self._document = Document()
        self._rows: list[Row] = []
        self._made_for: tuple[int, Look, bool] | None = None
        self._counted: tuple[list[Row], list[int]] | None = None

    @property
    def source(self) -> str:
        """What is rendered as Markdown so far."""
        return self._document.source

    def push(self, text: str) -> None:
        """More of the answer."""
        self._document.append(self._splitter.push(visible(text)))
        self._document.open_text = self._splitter.rest

    def end(self) -> None:
        """What is open is final now."""
        self._document.append(self._splitter.flush())
        self._document.open_text = ""

    def start_over(self) -> None:
        """What was shown was not the answer."""
        self._splitter = PartSplitter()
        self._document = Document()

    def draw(self) -> None:
        """Draw the rows that have changed; the layout is asked only when there are more or fewer of them."""
        width, before = self.content_size.width, self._rows
        self._made_for = None
        if not width:
            self.refresh(layout=True)
            return
        after = self._rows_at(width)
        if len(after) != len(before):
            self.refresh(layout=True)
            return
        changed = [
            y for y, (old, new) in enumerate(zip(before, after, strict=True)) if not _are_alike(old, new)
        ]
        if changed:
            self.refresh(Region(0, changed[0], width, changed[-1] - changed[0] + 1))

    def _rows_at(self, width: int) -> list[Row]:
        theme = self.app.current_theme
        look = Look(self.app.native_ansi_color, theme.dark)
        key = (width, look, not self.screen.has_class("-compact"))
        if self._made_for != key:
            self._rows = self._document.rows(width, look, airy=key[2])
            self._made_for = key
        return self._rows

    # --- places in it

    def letters_above(self, row: int) -> int:
        """How many letters and digits stand above a row."""
        return self._letters_before()[min(row, len(self._rows))]

    def row_with(self, letter: int) -> int:
        """The row in which that letter stands, counted from 0."""
        return max(bisect_right(self._letters_before(), letter) - 1, 0)

    def _letters_before(self) -> list[int]:
        """Of each row, and at last of all."""
        rows = self._rows_at(self.content_size.width) if self.content_size.width else []
        if self._counted is None or self._counted[0] is not rows:
            self._counted = rows, list(accumulate(map(letters_of, rows), initial=0))
        return self._counted[1]

    # --- what Textual asks

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows_at(width)) if width else 0

    def render_line(self, y: int) -> Strip:
        width, base = self.content_size.width, self.visual_style
        rows = self._rows_at(width) if width else []
        if y >= len(rows):
            return Strip.blank(width, base.rich_style)
        ink = self.query_ancestor(AnswerInks).ink
        pieces = self._selected(rows[y], y).render(base, end="", parse_style=ink)
        segments, x = [], 0
        for text, style in _runs(pieces):
            segments.append(Segment(text, (base + style).rich_style_with_offset(x, y)))
            x += len(text)
        return Strip(segments).adjust_cell_length(width, base.rich_style)

    def notify_style_update(self) -> None:
        """Another theme: code has other colours."""
        super().notify_style_update()
        self._made_for = None

    # --- selecting with the mouse

    def on_click(self, event: Click) -> None:
        """The screen selects words and lines; here nothing is selected as a whole."""
        if event.chain > 1:
            event.prevent_default()

    @property
    def lines(self) -> list[str]:
        """What stands in each row."""
        return [row.content.plain for row in self._rows]

    def rows_of_line(self, y: int) -> tuple[int, int]:
        """The first and the last row of the line that was wrapped into row `y`."""
        first = last = y
        while first and self._rows[first].joint is not None:
            first -= 1
        while last + 1 < len(self._rows) and self._rows[last + 1].joint is not None:
            last += 1
        return first, last

    def _selected(self, row: Row, y: int) -> Content:
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is None:
            return row.content
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        content = row.content
        for start, end in marked_parts(row, span[0], None if span[1] == -1 else span[1]):
            content = content.stylize(style, start, end)
        return content

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text as it was before it was wrapped."""
        return text_between(self._rows, selection.start, selection.end), "\n"


def _are_alike(old: Row, new: Row) -> bool:
    return old is new or old.content.is_same(new.content)


def _runs(pieces: Iterable[tuple[str, Style]]) -> Iterator[tuple[str, Style]]:
    """Neighbours that look alike as one: each change of style is some forty bytes to the terminal."""
    run, looks = "", Style()
    for text, style in pieces:
        if run and (style == looks or (text.isspace() and _same_space(style, looks))):
            run += text
            continue
        if run:
            yield run, looks
        run, looks = text, style
    if run:
        yield run, looks


def _same_space(one: Style, other: Style) -> bool:
    """Whether a space looks the same in both: the colour of the text does not matter for it."""
    lines = one.underline or one.strike or one.reverse or other.underline or other.strike or other.reverse
    return one.background == other.background and not lines
