"""The base of the parts of the panel: rows of cells, of which only those that changed are drawn again."""

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ebbtide.app.panel.cell import NONE, Cell, Ink, Row, changes
from ebbtide.app.panel.inks import Inked


class Cells(Widget):
    """Subclasses say what stands in their rows (`rows`); `update` draws the difference. How an ink looks is
    known by what they stand in (`Inked`).
    """

    def __init__(self, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._drawn: list[Row] = []
        self._strips: dict[int, Strip] = {}
        self._inks: dict[tuple[Ink, Ink, bool], Style] = {}

    def rows(self, width: int, height: int) -> list[Row]:
        """What to draw in `width` x `height` cells; short rows are filled up."""
        raise NotImplementedError

    def ink(self, ink: Ink) -> Style:
        """How an ink looks here."""
        return next(node for node in self.ancestors if isinstance(node, Inked)).ink(ink)

    def update(self) -> None:
        """Compare with what is drawn, and ask for those cells only that differ."""
        width, height = self.content_size
        if not width or not height or not self.display:
            return
        fresh = self.rows(width, height)[:height]
        fresh += [[] for _ in range(height - len(fresh))]
        old = self._drawn if len(self._drawn) == height else [[] for _ in range(height)]
        regions = []
        for y, (before, after) in enumerate(zip(old, fresh, strict=True)):
            if before is not after and before != after:
                self._strips.pop(y, None)
                regions += [Region(start, y, end - start, 1) for start, end in changes(before, after)]
        self._drawn = fresh
        if regions:
            self.refresh(*regions)

    def on_resize(self) -> None:
        self._drawn = []
        self._strips.clear()
        self.update()
        self.refresh()

    def forget_inks(self) -> None:
        """Another theme: they have other colours."""
        self._inks.clear()
        self._strips.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        strip = self._strips.get(y)
        if strip is None:
            row = self._drawn[y] if y < len(self._drawn) else []
            strip = self._strips[y] = self._strip(row)
        return strip

    def _strip(self, row: Row) -> Strip:
        width = self.content_size.width
        segments: list[Segment] = []
        run, style = "", None
        for cell in row[:width]:
            here = self._style(cell)
            if here is not style and run:
                segments.append(Segment(run, style))
                run = ""
            style = here
            run += cell.text
        if run:
            segments.append(Segment(run, style))
        return Strip(segments).adjust_cell_length(width, self.ink(NONE))

    def _style(self, cell: Cell) -> Style:
        key = (cell.ink, cell.under, cell.chosen)
        style = self._inks.get(key)
        if style is None:
            style = self.ink(cell.ink)
            if cell.under != NONE:
                style += Style(bgcolor=self.ink(cell.under).color)
            if cell.chosen:
                chosen = self.ink("chosen")
                style += Style(
                    color=chosen.color,
                    bgcolor=chosen.bgcolor,
                    bold=chosen.bold,
                    underline=chosen.underline,
                )
            self._inks[key] = style
        return style


class Canvas(Cells):
    """Stands for itself: `update_parts` draws it. (Tiles are drawn by the picture that they are part of.)"""
