"""The memory of the scripted engine: the same figures always, and experts that a person may act on."""

import struct

from ebbtide.engine import decisions
from ebbtide.engine.messages import Bound, Decision, Evict, Machine, Memory, Pin, Residency

LAYERS, EXPERTS = 30, 8
Place = tuple[int, int]


def memory() -> Memory:
    return Memory(
        budget_bytes=300 << 20,
        peak_bytes=280 << 20,
        process_peak_bytes=310 << 20,
        static_bytes=60 << 20,
        expert_bytes=160 << 20,
        kv_bytes=40 << 20,
        transient_bytes=10 << 20,
        free_bytes=30 << 20,
        expert_hit_rate=0.75,
        bytes_paged_in=123_456,
        width_histogram={"0": 10, "8": 30},
    )


def machine() -> Machine:
    return Machine(
        process_bytes=400 << 20,
        process_swap_bytes=0,
        app_bytes=60 << 20,
        available_bytes=9 << 30,
        total_bytes=16 << 30,
    )


class FakeExperts:
    """Every fourth one is absent, unless it is pinned, and the others have all 8 bits. `narrows`: bounds are
    taken.
    """

    def __init__(self, *, narrows: bool = False) -> None:
        self._narrows = narrows
        self._pinned: set[Place] = set()
        self._bounds: dict[Place, Bound] = {}

    def act(self, wish: Pin | Evict | Bound) -> Decision:
        """Pins and bounds are kept; nothing can be evicted."""
        place = (wish.layer, wish.expert)
        match wish:
            case Evict():
                return decisions.refused(f"Expert {wish.expert} stays.", "")
            case Pin():
                (self._pinned.add if wish.on else self._pinned.discard)(place)
                return decisions.by_hand("pin", "pinned" if wish.on else "unpinned", *place)
            case Bound() if not self._narrows:
                return decisions.refused("Widths do not change.", "Choose a /quality.")
            case Bound():
                self._bounds[place] = wish
                least = 8 if wish.held else wish.least
                return decisions.bounded(*place, (least, least), held=wish.held)

    def residency(self) -> Residency:
        places = [(layer, expert) for layer in range(LAYERS) for expert in range(EXPERTS)]
        widths = bytes(8 if place in self._pinned or sum(place) % 4 else 0 for place in places)
        bounds = [self._bounds.get(place, Bound(*place)) for place in places]
        return Residency(
            layers=LAYERS,
            experts=EXPERTS,
            widths=widths,
            uses=b"".join(struct.pack("<I", 3 * layer + expert) for layer, expert in places),
            pinned=bytes(place in self._pinned for place in places),
            slots=[6] * LAYERS,
            pages=struct.pack("<I", 16) * len(places),
            page_bytes=1 << 16,
            spare_bytes=2 << 20,
            memory=memory(),
            block_widths=bytes([8]) * 2 * len(places),
            bounds=bytes(8 if of.held else of.least for of in bounds) if self._narrows else b"",
            held=bytes(of.held for of in bounds) if self._narrows else b"",
            width_bytes=[0, 0, 0, 0, 0, 0, 0, 0, (len(places) - widths.count(0)) << 20],
            average_bits=8.0,
        )
