"""What a residency event says about widths and about single experts, as plain figures."""

from array import array
from collections import Counter
from typing import NamedTuple

from ebbtide.app.panel.grid import Place
from ebbtide.engine.messages import Residency


class WidthClass(NamedTuple):
    """All blocks (gate and up of an expert, or down) of one width; 0 = absent."""

    width: int
    blocks: int
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
    blocks: tuple[int, int]
    """Planes of gate+up and of down; of an absent expert those that it would be read with."""
    least: int
    """Planes that a person keeps it at, or above; 0 = no bound."""
    held: bool


def width_classes(residency: Residency) -> list[WidthClass]:
    """Widths that occur, widest first, then the absent."""
    counts = Counter(residency.block_widths)
    for at, width in enumerate(residency.widths):
        if not width:
            counts.subtract(_blocks(residency, Place(*divmod(at, residency.experts))))
    counts[0] += 2 * residency.widths.count(0)
    return [
        WidthClass(width, blocks, residency.width_bytes[width])
        for width, blocks in sorted(counts.items(), reverse=True)
        if blocks
    ]


def uses_of(residency: Residency) -> "array[int]":
    """Uses as numbers, row-major [layers, experts]."""
    return _figures(residency.uses)


def bytes_of(residency: Residency) -> list[int]:
    """Of each expert, row-major [layers, experts]; of an absent one those that it would take."""
    return [pages * residency.page_bytes for pages in _figures(residency.pages)]


def _figures(content: bytes) -> "array[int]":
    """Of u32."""
    figures = array("I")
    assert figures.itemsize == 4
    figures.frombytes(content)
    return figures


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
        nbytes=bytes_of(residency)[at],
        uses=uses[at],
        share=uses[at] / total if total else 0.0,
        pinned=bool(residency.pinned[at]),
        layer_resident=residency.experts - layer.count(0),
        layer_slots=residency.slots[place.layer],
        blocks=_blocks(residency, place),
        least=residency.bounds[at] if residency.bounds else 0,
        held=bool(residency.held and residency.held[at]),
    )


def _blocks(residency: Residency, place: Place) -> tuple[int, int]:
    """Planes of both blocks."""
    first = 2 * place.layer * residency.experts + place.expert
    return residency.block_widths[first], residency.block_widths[first + residency.experts]
