"""Whether reading experts ahead of the router pays, judged by how often it was right."""

MOST_GUESSED = 1
"""Experts of a layer. The disk is free for about as long as one read takes; a router's surest choices are
right most often.
"""
TRUST_AT = 0.75
"""Below this share of right guesses they cost more than they save: the starter's 64 % made it slower by a
tenth, 86 % on a model of OLMoE's size faster by a seventh (`tests/tools/paging_rate.py --prefetch`).
"""
MEMORY = 64
"""Guessed experts after which an old one counts for half."""
TRY_EVERY = 32
"""Chances let go by before a router that was hard to guess is tried again."""


class Trust:
    """Share of guessed experts that were then routed to, recent ones counting more; hopeful at first."""

    def __init__(self) -> None:
        self.made = self.right = 0
        """Experts guessed since `reset`, and those of them that were routed to."""
        self._share = 1.0
        self._passed = 0

    def note(self, made: int, right: int) -> None:
        """Of `made` guessed experts of a layer, `right` were routed to."""
        self.made += made
        self.right += right
        keep = 0.5 ** (made / MEMORY)
        self._share = keep * self._share + (1.0 - keep) * right / made

    def chance(self) -> bool:
        """Whether to guess this time."""
        if self._share >= TRUST_AT:
            return True
        self._passed = (self._passed + 1) % TRY_EVERY
        return self._passed == 0

    def reset(self) -> None:
        """Forget the counts; what they taught stays."""
        self.made = self.right = 0
