"""One layer's experts as the pager sees them: who is here, who is needed now, whom a person pinned."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import UsageError
from ebbtide.engine.memory.policy import make_policy
from ebbtide.engine.memory.quotas import Quota
from ebbtide.engine.memory.tables import WeightPageTable

U8 = NDArray[np.uint8]


class LayerCache:
    """The books of one layer; pages are the pager's business.

    Two reasons keep an expert from being a victim: the step needs it (`needed`, set and cleared within one
    event), or a person pinned it (`pinned`, always resident, and always with room for one more beside them).
    """

    def __init__(self, index: int, table: WeightPageTable, policy: str) -> None:
        self.index = index
        self._held = table.held
        self.policy = make_policy(policy, table.experts)
        self.resident = table.resident[index]
        self.mask: U8 = np.frombuffer(self.resident, np.uint8)
        self.uses = [0] * table.experts
        """Events that routed to each expert."""
        self.quota = Quota(0, 0)
        """What this layer may keep: its pages are the limit."""
        self.sizes: list[int] = []
        """Pages of each expert as it would be read now."""
        self.mean = 1.0
        self.needed: Sequence[int] = ()
        self.coming = 0
        """Pages of experts that are being read on a guess."""
        self.staged = 0
        """Pages that further planes of residents are being read into."""
        self.pinned: list[int] = []
        """In the order in which they were pinned."""

    def resize(self, sizes: list[int], quota: Quota) -> list[int]:
        """From now on experts have these sizes and the layer this quota; experts whose pins had to go.

        Pins give way before anything else does: they may cost speed, never a conversation's memory.
        """
        self.sizes, self.quota, self.mean = sizes, quota, sum(sizes) / len(sizes)
        lost = []
        while self.pinned and not self.can_pin(self.pinned):
            lost.append(self.pinned.pop())
        return lost

    @property
    def count(self) -> int:
        return self.resident.count(1)

    @property
    def held(self) -> int:
        """Pages of this layer's experts, and of what is read for those that are here."""
        return self._held[self.index] + self.staged

    @property
    def reach(self) -> int:
        """Pages of the experts that are here or coming, as they would be read now."""
        here = sum([size for size, here in zip(self.sizes, self.resident, strict=True) if here])
        return here + self.coming

    @property
    def excess(self) -> float:
        """Experts of middling size above the quota (negative below it)."""
        return (self.held - self.quota.pages) / self.mean

    @property
    def room(self) -> int:
        """Pages that may be read into now without touching an expert that has to stay."""
        staying = {*self.pinned, *self.needed} if self.pinned else self.needed
        sizes = self.sizes
        return self.quota.pages - self.coming - sum([sizes[expert] for expert in staying])

    def is_over(self, pages: int) -> bool:
        """Whether so many pages more would be above the quota."""
        return self.held + self.coming + pages > self.quota.pages

    def fitting(self, wanted: Sequence[int]) -> tuple[int, int]:
        """(how many of `wanted`, the first ones, are to be read now, their pages), beside those that stay."""
        room, sizes = self.room, self.sizes
        # Where not all fit, half a quota at a time lets the next half be read during the computation.
        if sum([sizes[expert] for expert in wanted]) > room:
            room = min(room, max(sizes[wanted[0]], self.quota.pages // 2))
        count = pages = 0
        for expert in wanted:
            if pages + sizes[expert] > room:
                break
            count, pages = count + 1, pages + sizes[expert]
        return count, pages

    def can_pin(self, experts: Sequence[int]) -> bool:
        """Whether with these pinned there is room for any other expert."""
        sizes = self.sizes
        return sum(sizes[expert] for expert in experts) + max(sizes) <= self.quota.pages

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

    def check_pin(self, expert: int) -> None:
        """Raise UsageError when one more pin would leave no room for the others."""
        if self.can_pin([*self.pinned, expert]):
            return
        count = max(self.quota.slots, len(self.pinned) + 1)
        slots = "1 expert" if count == 1 else f"{count} experts"
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
        """Raise AssertionError unless nothing is needed and pins are resident and leave room for one more."""
        assert not self.needed and not self.coming, "an expert is still needed or on its way"
        assert all(self.resident[expert] for expert in self.pinned), "a pinned expert is absent"
        assert len(set(self.pinned)) == len(self.pinned), "an expert is pinned twice"
        assert not self.pinned or self.can_pin(self.pinned), "pins fill the layer"
