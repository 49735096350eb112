"""Code on its background: a row that names it, and rows for each of its lines.

····················python  1     the label: an ornament
·def f():····················     · is drawn for the eye; a copy has the line as it was written, with
·    return the_name_of_a_th·     its tabs and the spaces at its end
·↪ ing_that_is_long·········
"""

from collections.abc import Sequence

from textual.content import Content

from ebbtide.app.rendering.rows import NARROWEST, Cut, Look, Row, folded
from ebbtide.app.safe_text import safe_line

TAB_CELLS = 4
GOES_ON = "↪ "
"""In front of a line of code that is the rest of the one above it."""


def code_label(language: str, number: int, width: int) -> Row:
    """The language and the number for `/copy NUMBER`, on the right."""
    inside = _inside(width)
    title = safe_line(language).partition(" ")[0] or "text"
    title = f"{title}  {number}"[-inside:].rjust(inside)
    return Row(_on_paper(Content.styled(title, ".answer--code-title"), inside), is_text=False)


def colored_lines(lines: Sequence[str], language: str, look: Look) -> list[Content]:
    """The lines in colour, with spaces for tabs."""
    from ebbtide.app.widgets.code_colors import colored  # after the first paint

    text = "\n".join(lines).expandtabs(TAB_CELLS)
    return colored(text, language, ansi=look.ansi, dark=look.dark).split("\n", allow_blank=True)


def code_rows(line: str, content: Content, width: int) -> list[Row]:
    """The rows of one line: `line` as it was written, `content` as it is drawn."""
    inside = _inside(width)
    tabs, rows, at = _tabs(line), [], 0
    for row in folded(content, inside, GOES_ON):
        hang = 1 + row.hang
        length = len(row.content) - row.hang
        inner = [
            # Of a tab that is cut in two, the first half is the tab.
            Cut(max(tab.start - at, 0) + hang, min(tab.end - at, length) + hang, "\t" * (tab.start >= at))
            for tab in tabs
            if tab.start < at + length and tab.end > at
        ]
        paper = _on_paper(row.content, inside)
        cuts = (Cut(0, hang), *inner, Cut(hang + length, len(paper)))
        rows.append(Row(paper, hang, row.joint, cuts))
        at += length
    return rows


def _tabs(line: str) -> list[Cut]:
    """Where the spaces for its tabs stand."""
    tabs, column = [], 0
    for part in line.split("\t")[:-1]:
        start = column + len(part)
        column = start - start % TAB_CELLS + TAB_CELLS
        tabs.append(Cut(start, column, "\t"))
    return tabs


def _inside(width: int) -> int:
    return max(width, NARROWEST) - 2


def _on_paper(line: Content, width: int) -> Content:
    """A line of a code block: on its background, with a space on both sides."""
    return line.pad(1, 1 + max(0, width - line.cell_length)).stylize_before(".answer--code")
