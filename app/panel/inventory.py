"""What a residency event says about widths and about single experts, as plain figures."""

from array import array
from typing import NamedTuple

from ebbtide.app.panel.grid import Place
from ebbtide.engine.messages import Residency


class WidthClass(NamedTuple):
    """All experts of one width; 0 = absent."""

    width: int
    experts: int
    nbytes: int


class ExpertFacts(NamedTuple):
    """One expert. `share` = its part of its layer's uses, 0 to 1."""

    place: Place
    width: int
    nbytes: int
    uses: int
    share: float
    pinned: bool
    layer_resident: int
    layer_slots: int


def width_classes(residency: Residency) -> list[WidthClass]:
    """Widths that occur, widest first, then the absent."""
    counts, sizes = [0] * 256, [0] * 256
    for layer in range(residency.layers if residency.experts else 0):
        row = residency.widths[layer * residency.experts : (layer + 1) * residency.experts]
        for width in set(row):
            count = row.count(width)
            counts[width] += count
            sizes[width] += count * residency.expert_bytes[layer] if width else 0
    return [WidthClass(width, counts[width], sizes[width]) for width in range(255, -1, -1) if counts[width]]


def uses_of(residency: Residency) -> "array[int]":
    """Uses as numbers, row-major [layers, experts]."""
    uses = array("I")
    assert uses.itemsize == 4
    uses.frombytes(residency.uses)
    return uses


def facts(residency: Residency, place: Place) -> ExpertFacts:
    """All about one expert."""
    first = place.layer * residency.experts
    at = first + place.expert
    uses = uses_of(residency)
    layer = residency.widths[first : first + residency.experts]
    total = sum(uses[first : first + residency.experts])
    return ExpertFacts(
        place=place,
        width=residency.widths[at],
        nbytes=residency.expert_bytes[place.layer],
        uses=uses[at],
        share=uses[at] / total if total else 0.0,
        pinned=bool(residency.pinned[at]),
        layer_resident=residency.experts - layer.count(0),
        layer_slots=residency.slots[place.layer],
    )
