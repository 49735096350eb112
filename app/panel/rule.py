"""The line above a section: its title on the left, a remark on the right."""

from collections.abc import Callable

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import FAINT, LABEL, TITLE, Row, fill, text

LEAST_TITLE = 12
"""Cells that a title needs; where they are missing, parts of the remark go, the first first."""
SEPARATOR = " · "


class Rule(Canvas):
    """`title` and `remark` are asked for at every update."""

    def __init__(
        self, title: Callable[[], str], remark: Callable[[], str] = lambda: "", name: str | None = None
    ) -> None:
        super().__init__(classes=name)
        self._title, self._remark = title, remark

    def rows(self, width: int, height: int) -> list[Row]:
        title, parts = self._title(), self._remark().split(SEPARATOR)
        right = self._right(parts)
        while parts and width - len(right) < LEAST_TITLE:
            parts = parts[1:]
            right = self._right(parts)
        room = width - len(right) - len(" … ") - 4
        if len(title) > room:
            title = f"{title[: max(room, 0)].rstrip(' ·')} …"
        left = [*fill(FAINT, "─", 2), *text(f" {title} " if title else "", TITLE)]
        return [[*left, *fill(FAINT, "─", width - len(left) - len(right)), *right][:width]]

    @staticmethod
    def _right(parts: list[str]) -> Row:
        remark = SEPARATOR.join(parts)
        return [*text(f" {remark} ", LABEL), *fill(FAINT, "─", 2)] if remark else []
