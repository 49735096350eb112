"""Selecting with the mouse. Where there is no letter, on an empty row or beside a text, Textual finds no
place, and takes the start or the end of the whole text instead; a double click takes all of it.
"""

import re

from textual.events import Click
from textual.geometry import Offset
from textual.screen import Screen
from textual.selection import Selection
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.app.widgets.answer_text import AnswerText

_RUN = re.compile(r"\w+|[^\w\s]+")


class SelectingScreen(Screen[None]):
    """Every cell in the rows of a text is a place in that text. Two clicks select a word, three a line."""

    def on_click(self, event: Click) -> None:
        """Textual has selected the whole of a question or a note by now."""
        if event.chain not in (2, 3) or event.widget is None:
            return
        text, place = self.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if text is None or place is None or not _is_text(text):
            return
        selection = _word_at(text, place) if event.chain == 2 else _line_at(text, place)
        self.selections = {text: selection} if selection is not None else {}

    def get_widget_and_offset_at(self, x: int, y: int) -> tuple[Widget | None, Offset | None]:
        widget, offset = super().get_widget_and_offset_at(x, y)
        if widget is None or (offset is not None and _is_text(widget)):
            return widget, offset
        text = _text_in_row(widget, y)
        if text is None:
            return widget, offset
        region = text.content_region
        x = min(max(x, region.x), region.right - 1)
        return text, self._place_in(text, x, y)

    def _place_in(self, text: Widget, x: int, y: int) -> Offset:
        """The letter at a cell; an empty row is a line of its own below the last one with letters."""
        top = text.content_region.y
        for above in range(y, top - 1, -1):
            widget, offset = super().get_widget_and_offset_at(x, above)
            if widget is text and offset is not None:
                return offset if above == y else Offset(0, offset.y + y - above)
        return Offset(0, y - top)


def _word_at(text: Widget, place: Offset) -> Selection | None:
    """The letters around a place that make a word, or the signs that make one."""
    for run in _RUN.finditer("".join(_lines(text)[place.y : place.y + 1])):
        if run.start() <= place.x < run.end():
            return Selection(Offset(run.start(), place.y), Offset(run.end(), place.y))
    return None


def _line_at(text: Widget, place: Offset) -> Selection | None:
    """A line as it was written, however many rows it takes."""
    lines = _lines(text)
    if place.y >= len(lines):
        return None
    first, last = text.rows_of_line(place.y) if isinstance(text, AnswerText) else (place.y, place.y)
    return Selection(Offset(0, first), Offset(len(lines[last]), last)) if lines[last].strip() else None


def _lines(text: Widget) -> list[str]:
    return text.lines if isinstance(text, AnswerText) else str(text.render()).split("\n")


def _text_in_row(widget: Widget, y: int) -> Widget | None:
    """`widget`, or the text in it, or beside an ornament, that takes up this row of the screen."""
    holder = widget if widget.allow_select or not isinstance(widget.parent, Widget) else widget.parent
    inside = [widget] if _is_text(widget) else [each for each in holder.query("*") if _is_text(each)]
    for each in inside:
        region = each.content_region
        if each.is_on_screen and region.y <= y < region.bottom:
            return each
    return None


def _is_text(widget: Widget) -> bool:
    return isinstance(widget, AnswerText | Static) and widget.allow_select and widget.display
