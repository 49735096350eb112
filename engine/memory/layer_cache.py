"""One layer's experts as the pager sees them: who is here, who is needed now, whom a person pinned."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.policy import make_policy
from ebbtide.engine.memory.tables import WeightPageTable

U8 = NDArray[np.uint8]


class LayerCache:
    """The books of one layer; pages are the pager's business.

    Two reasons keep an expert from being a victim: the step needs it (`needed`, set and cleared within one
    event), or a person pinned it (`pinned`, always resident and always fewer than `slots`).
    """

    def __init__(self, index: int, table: WeightPageTable, policy: str) -> None:
        self.index = index
        self.pages_per_expert = table.pages_per_expert[index]
        self.policy = make_policy(policy, table.experts)
        self.resident = table.resident[index]
        self.mask: U8 = np.frombuffer(self.resident, np.uint8)
        self.uses = [0] * table.experts
        """Events that routed to each expert."""
        self.slots = 0
        """The quota: experts this layer may keep."""
        self.needed: Sequence[int] = ()
        self.coming = 0
        """Experts that are being read on a guess; each takes a slot."""
        self.pinned: list[int] = []
        """In the order in which they were pinned."""

    @property
    def count(self) -> int:
        return self.resident.count(1)

    @property
    def excess(self) -> int:
        """Experts above the quota (negative below it)."""
        return self.count - self.slots

    @property
    def room(self) -> int:
        """Experts that may be read now without touching one that has to stay."""
        if not self.pinned:
            return self.slots - self.coming - len(self.needed)
        return self.slots - self.coming - len({*self.pinned, *self.needed})

    @property
    def most_pins(self) -> int:
        """One slot stays free for the experts that are not pinned."""
        return max(self.slots - 1, 0)

    def touch(self, experts: Sequence[int]) -> None:
        """Record one event that routed to `experts`."""
        self.policy.touch(experts)
        uses = self.uses
        for expert in experts:
            uses[expert] += 1

    def release(self, needed: Sequence[int]) -> None:
        """These are needed no more, unless a later group has set its own."""
        if self.needed is needed:
            self.needed = ()

    def evictable(self) -> list[int]:
        needed, pinned = self.needed, self.pinned
        return [
            expert
            for expert, here in enumerate(self.resident)
            if here and expert not in needed and expert not in pinned
        ]

    def check_pin(self) -> None:
        """Raise UsageError when one more pin would leave no slot for the others."""
        if len(self.pinned) < self.most_pins:
            return
        slots = "1 expert" if self.slots == 1 else f"{self.slots} experts"
        raise UsageError(
            f"Layer {self.index} keeps {slots}, {len(self.pinned)} of them pinned: "
            "one slot has to stay free for the others.",
            hint="Unpin another expert of this layer, or give a larger --budget.",
        )

    def check_evict(self, expert: int) -> None:
        """Raise UsageError when `expert` is pinned or not here."""
        name = f"Expert {expert} of layer {self.index}"
        if expert in self.pinned:
            raise UsageError(f"{name} is pinned.", hint="Unpin it first.")
        if not self.resident[expert]:
            raise UsageError(f"{name} is not in fast memory.", hint="It comes back when it is routed to.")

    def check_integrity(self) -> None:
        """Raise AssertionError unless nothing is needed and pins are resident and leave a slot free."""
        assert not self.needed and not self.coming, "an expert is still needed or on its way"
        assert all(self.resident[expert] for expert in self.pinned), "a pinned expert is absent"
        assert len(set(self.pinned)) == len(self.pinned) <= self.most_pins, "pins fill the layer"
