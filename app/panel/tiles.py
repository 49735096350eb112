"""A wide canvas in narrow pieces.

Textual sends a changed line from the left edge of its widget up to the change. Pieces keep that way short:
a map in which single cells change all over costs a third of the bytes.
"""

from textual.containers import Horizontal
from textual.events import Resize

from ebbtide.app.panel.canvas import Cells
from ebbtide.app.panel.cell import Row

TILE_CELLS = 12


class Tile(Cells):
    """Columns `start` and following of its parent's picture."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.start = start
        self.picture: list[Row] = []

    def rows(self, width: int, height: int) -> list[Row]:
        return [row[self.start : self.start + width] for row in self.picture]


class Tiles(Horizontal):
    """Subclasses make the whole picture (`rows`), as with a Canvas."""

    def __init__(self) -> None:
        super().__init__()
        self._tiles: list[Tile] = []

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
        fresh = [Tile(number * TILE_CELLS) for number in missing]
        self._tiles += fresh
        self.mount_all(fresh)
        for tile in self._tiles:
            room = width - tile.start
            tile.display = room > 0
            if room > 0:
                tile.styles.width = min(room, TILE_CELLS)
        self.call_after_refresh(self.update)
