"""Speed, hit rate and bytes moved over the last minute, one line each."""

from collections.abc import Sequence

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import FAINT, LABEL, NONE, Ink, Row, blank, text
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.numbers import percent, rate, size, size_rate, speed
from ebbtide.app.panel.traces import SECONDS, Trace

STEPS = "▁▂▃▄▅▆▇█"
NAME_CELLS = 8
NOW_CELLS, MOST_CELLS = 13, 16
NARROW = 60
"""Below it, only the present figure has."""
WIDE = 96
"""From this width on, a third figure has room."""


def sparkline(trace: Trace, top: float, width: int, ink: Ink) -> Row:
    """The whole minute; `top` is the full height. Where a cell has several seconds, it shows their maximum;
    seconds without work are a faint dot.
    """
    row: Row = []
    for value in _in_cells(trace.values, width):
        if value is None:
            row += text("·", FAINT)
        else:
            step = round(value / top * (len(STEPS) - 1)) if top > 0 else 0
            row += text(STEPS[max(0, min(step, len(STEPS) - 1))], ink)
    return [*blank(width - len(row)), *row]


def _in_cells(values: Sequence[float | None], cells: int) -> list[float | None]:
    count = len(values)
    if cells >= count:
        return list(values)
    parts = [values[at * count // cells : (at + 1) * count // cells] for at in range(max(cells, 0))]
    return [max((value for value in part if value is not None), default=None) for part in parts]


class Sparks(Canvas):
    """Three rows; `compact` leaves out all but the name, the line and the present figure."""

    def __init__(self, feed: PanelFeed, *, compact: bool = False) -> None:
        super().__init__()
        self._feed, self._compact = feed, compact

    def rows(self, width: int, height: int) -> list[Row]:
        traces = self._feed.traces()
        first = self._feed.first_token_s
        decode, hit, moved = traces.decode_tok_s, traces.hit_rate, traces.moved_bytes_s
        misses = traces.misses_per_token
        lines: list[tuple[str, Trace, float, Ink, str, str, str]] = [
            (
                "decode",
                decode,
                decode.most,
                "expert",
                speed(decode.now),
                f"max {rate(decode.most or None)}",
                f"first token {first:.2f} s" if first is not None else "",
            ),
            (
                "hits",
                hit,
                1.0,
                "transient",
                percent(hit.now),
                f"max {percent(hit.most or None)}",
                f"{misses:.1f} misses/token" if misses is not None else "",
            ),
            (
                "moved",
                moved,
                moved.most,
                "kv",
                size_rate(moved.now),
                f"max {size_rate(moved.most or None)}",
                f"{size(traces.bytes_per_token)}/token" if traces.bytes_per_token is not None else "",
            ),
        ]
        most_cells = max(MOST_CELLS, *(len(most) + 4 for *_, most, _ in lines))
        return [self._line(width, most_cells, *line) for line in lines]

    def _line(
        self,
        width: int,
        most_cells: int,
        name: str,
        trace: Trace,
        top: float,
        ink: Ink,
        now: str,
        most: str,
        more: str,
    ) -> Row:
        compact = self._compact or width < NARROW
        name_cells = NAME_CELLS - 1 if compact else NAME_CELLS
        row = text(name.ljust(name_cells), LABEL)
        right: Row = text(now.rjust(NOW_CELLS - 1 if compact else NOW_CELLS))
        if not compact:
            right += text(f"   {most}".ljust(most_cells), LABEL)
        if not compact and width >= WIDE:
            right += text(f"   {more}".ljust(26), LABEL)
        cells = min(SECONDS, width - len(row) - len(right))
        row += sparkline(trace, top, cells, ink)
        return [*row, *right][:width] if cells > 0 else [*text(name + " ", LABEL), *text(now, NONE)][:width]
