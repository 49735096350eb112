"""The line above a section: its title on the left, a remark on the right."""

from collections.abc import Callable

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import FAINT, LABEL, TITLE, Row, fill, text

LEAST_TITLE = 12
"""Cells that a title needs; below that the remark goes."""


class Rule(Canvas):
    """`title` and `remark` are asked for at every update."""

    def __init__(self, title: Callable[[], str], remark: Callable[[], str] = lambda: "") -> None:
        super().__init__()
        self._title, self._remark = title, remark

    def rows(self, width: int, height: int) -> list[Row]:
        title, remark = self._title(), self._remark()
        right = [*text(f" {remark} ", LABEL), *fill(FAINT, "─", 2)] if remark else []
        if width - len(right) < LEAST_TITLE:
            right = []
        room = width - len(right) - len(" … ") - 4
        if len(title) > room:
            title = f"{title[: max(room, 0)].rstrip(' ·')} …"
        left = [*fill(FAINT, "─", 2), *text(f" {title} " if title else "", TITLE)]
        return [[*left, *fill(FAINT, "─", width - len(left) - len(right)), *right][:width]]
