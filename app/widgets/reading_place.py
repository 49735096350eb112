"""The place in a chat that a reader is at: it stays at the top of the view when the width changes.

Rows are others at another width, so a place is a turn and so many letters of its text:

    40 columns               200 columns
    ... the tide goes        ... the tide goes out twice a day ...
    out twice a day ...      ^ the row with the letter that began the row at the top
"""

from typing import TYPE_CHECKING, NamedTuple

from ebbtide.app.widgets.turns import Entry, Spot

if TYPE_CHECKING:
    from ebbtide.app.widgets.transcript import Transcript


class _Place(NamedTuple):
    turn: Entry
    spot: Spot


class ReadingPlace:
    """Works for one Transcript. `is_set`: the reader is away from the end."""

    def __init__(self, transcript: "Transcript") -> None:
        self._transcript = transcript
        self._place: _Place | None = None
        self._width = 0
        """Of the rows that the place was last seen in."""
        self._moving = False

    @property
    def is_set(self) -> bool:
        return self._place is not None

    def forget(self) -> None:
        """The end is wanted, or another chat."""
        self._place = None

    def scrolled(self) -> None:
        """Remember what is at the top; not where the view was moved because rows have become others."""
        view = self._transcript
        if self._moving or (self._place is not None and self._width != view.width_of_rows):
            return
        self._width = view.width_of_rows
        turn = None if view.follows else view.turn_at_top()
        if turn is None:
            self._place = None
        else:
            top = max(view.scroll_offset.y - turn.virtual_region.y, 0)
            self._place = _Place(turn, turn.spot_at(top))

    def resized(self) -> None:
        """After a layout: bring the place to the top again, if the rows are others."""
        view = self._transcript
        if self._place is None or self._width == view.width_of_rows:
            return
        self._width = view.width_of_rows
        turn, spot = self._place
        if not turn.is_attached:
            self._place = None
            return
        self._moving = True
        try:
            y = turn.virtual_region.y + turn.row_of(spot)
            view.scroll_to(y=y, animate=False, immediate=True, force=True)
        finally:
            self._moving = False
