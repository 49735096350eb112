"""A wide canvas in narrow pieces.

Textual sends a changed line from the left edge of its widget up to the change. Pieces keep that way short:
a map in which single cells change all over costs a third of the bytes.
"""

from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Resize

from ebbtide.app.panel.canvas import Canvas, Cells
from ebbtide.app.panel.cell import Ink, Row

TILE_CELLS = 12


class Palette(Canvas):
    """Shows nothing: it has the inks for all tiles of one picture. To style two dozen inks for each of them
    took most of the time in which the panel opens.
    """

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.tiles: list[Tile] = []

    def notify_style_update(self) -> None:
        """Another theme: it reaches the tiles only from here."""
        super().notify_style_update()
        for tile in self.tiles:
            tile.notify_style_update()
            tile.refresh()


class Tile(Cells):
    """Columns `start` and following of its parent's picture."""

    def __init__(self, start: int, palette: Palette) -> None:
        super().__init__()
        self.start = start
        self.picture: list[Row] = []
        self._palette = palette

    def rows(self, width: int, height: int) -> list[Row]:
        return [row[self.start : self.start + width] for row in self.picture]

    def ink(self, ink: Ink) -> Style:
        return self._palette.ink(ink)


class Tiles(Horizontal):
    """Subclasses make the whole picture (`rows`), as with a Canvas."""

    def __init__(self) -> None:
        super().__init__()
        self._palette = Palette()
        self._tiles = self._palette.tiles

    def compose(self) -> ComposeResult:
        yield self._palette

    def rows(self, width: int, height: int) -> list[Row]:
        """What to draw in `width` x `height` cells."""
        raise NotImplementedError

    def update(self) -> None:
        """Draw what has changed."""
        width, height = self.content_size
        if not width or not height or not self.display:
            return
        picture = self.rows(width, height)[:height]
        for tile in self._tiles:
            tile.picture = picture
            tile.update()

    def on_resize(self, event: Resize) -> None:
        """As many pieces as there is room for; the last one is cut."""
        width = event.size.width
        missing = range(len(self._tiles), -(-width // TILE_CELLS))
        fresh = [Tile(number * TILE_CELLS, self._palette) for number in missing]
        self._tiles += fresh
        self.mount_all(fresh)
        for tile in self._tiles:
            room = width - tile.start
            tile.display = room > 0
            if room > 0:
                tile.styles.width = min(room, TILE_CELLS)
        self.call_after_refresh(self.update)
