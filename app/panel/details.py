"""Beside the map: how many blocks have which width, and all about the chosen expert."""

from collections.abc import Callable

from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import FAINT, LABEL, NONE, TITLE, Cell, Row, fill, text
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import Place
from ebbtide.app.panel.inventory import ExpertFacts, facts, uses_of, width_classes
from ebbtide.app.panel.map_cells import BARS, ink_of
from ebbtide.app.panel.numbers import size
from ebbtide.app.panel.sparks import STEPS
from ebbtide.engine.messages import Residency
from ebbtide.engine.sizes import in_unit, unit_for


class Histogram(Canvas):
    """Blocks by width: sign, bits, count, bytes and a bar. The mean is over all experts, present or
    not, as in the event log.
    """

    def __init__(self, feed: PanelFeed) -> None:
        super().__init__()
        self._feed = feed

    def rows(self, width: int, height: int) -> list[Row]:
        residency = self._feed.residency
        if residency is None or residency.experts == 0:
            return []
        classes = width_classes(residency)
        resident = [entry for entry in classes if entry.width]
        unit_bytes, unit, digits = unit_for(sum(entry.nbytes for entry in resident))
        most = max((entry.blocks for entry in classes), default=1)
        rows = [text(f"  bits  blocks {unit:>6}  mean {residency.average_bits:.2f}", LABEL)]
        for entry in classes[: max(height - 1, 0)]:
            ink = ink_of(entry.width)
            bits = str(entry.width) if entry.width else "-"
            figure = in_unit(entry.nbytes, unit_bytes, digits) if entry.width else "absent"
            words = text(f" {bits:>4} {entry.blocks:>7,} {figure:>6} ", NONE)
            room = max(width - len(words) - 1, 0)
            bar = fill(ink, "▇" if entry.width else "·", max(1, round(entry.blocks / most * room)))
            rows.append([*text(BARS[min(entry.width, 8)], ink), *words, *bar[:room]])
        return rows


class Inspector(Canvas):
    """The chosen expert. `keys` = whether it can be pinned and evicted from here."""

    def __init__(self, feed: PanelFeed, place: Callable[[], Place | None], *, keys: bool) -> None:
        super().__init__()
        self._feed, self._place, self._keys = feed, place, keys

    def rows(self, width: int, height: int) -> list[Row]:
        residency, place = self._feed.residency, self._place()
        if residency is None or residency.experts == 0 or place is None:
            return []
        known = facts(residency, place)
        if known.width:
            low, high = sorted(known.blocks)
            bits = f"{low}-bit" if low == high else f"{known.blocks[0]}+{known.blocks[1]}-bit"
            state = f"{bits}, {size(known.nbytes)}"
        else:
            state = "absent, read when it is needed"
        rows = [
            text(f"▸ L{place.layer:02} · expert {place.expert}", TITLE),
            [*text(f"  {state}"), *text(_wishes(known), "pinned")],
            text(f"  {known.uses:,} uses, {known.share:.0%} of its layer's", NONE),
            self._layer_uses(residency, place, width - 2),
            text(f"  layer has {known.layer_resident}, may keep {known.layer_slots}", LABEL),
        ]
        if self._keys:
            pin = "[p] unpin" if known.pinned else "[p] pin"
            can_evict = bool(known.width) and not known.pinned
            keys = [*text(f"  {pin}   ", LABEL), *text("[e] evict", LABEL if can_evict else FAINT)]
            rows[2:2] = [keys, _width_keys(residency, known)]
        return [row[:width] for row in rows]

    @staticmethod
    def _layer_uses(residency: Residency, place: Place, width: int) -> Row:
        """Uses of all experts of the layer as a line of bars; the chosen one is marked."""
        count = residency.experts
        uses = uses_of(residency)[place.layer * count : (place.layer + 1) * count]
        merge = -(-count // max(width, 1))
        sums = [sum(uses[first : first + merge]) for first in range(0, count, merge)]
        most = max(sums) or 1
        wide = max(1, min(3, width // len(sums)))
        row: Row = [*text("  ")]
        for index, total in enumerate(sums):
            mark = STEPS[round(total / most * (len(STEPS) - 1))]
            row += [Cell(mark, "other", chosen=index == place.expert // merge)] * wide
        return row


def _wishes(known: ExpertFacts) -> str:
    """What a person wants of the expert."""
    words = " · pinned" if known.pinned else ""
    if known.held:
        return f"{words} · held"
    return f"{words} · at least {known.least}" if known.least else words


def _width_keys(residency: Residency, known: ExpertFacts) -> Row:
    """Keys for its width; faint where widths do not change."""
    ink = LABEL if residency.bounds else FAINT
    least = "[b] free" if known.least and not known.held else "[b] at least"
    hold = "[w] free" if known.held else "[w] hold width"
    return text(f"  {least}   {hold}", ink)
