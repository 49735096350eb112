"""Eviction policies of one layer: which resident expert to give up."""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Protocol

from ebbtide.engine.errors import UsageError


class Policy(Protocol):
    """Ranks the experts of one layer."""

    def touch(self, experts: Sequence[int]) -> None:
        """Record one event in which all of `experts` were routed to. Their order does not matter."""
        ...

    def victim(self, candidates: Iterable[int]) -> int:
        """The expert to evict among `candidates` (not empty); of equals, the first."""
        ...


class Lru:
    """Least recently used, by event: experts of one event are equally recent."""

    def __init__(self, experts: int) -> None:
        self._last = [0] * experts
        self._event = 0

    def touch(self, experts: Sequence[int]) -> None:
        self._event += 1
        event, last = self._event, self._last
        for expert in experts:
            last[expert] = event

    def victim(self, candidates: Iterable[int]) -> int:
        return min(candidates, key=self._last.__getitem__)


class Lfu:
    """Least frequently used; a use loses half its weight every `half_life` events.

    Instead of ageing every score, new uses weigh more: only ratios matter, so scores are scaled down when
    large.
    """

    _LARGE = 1e100

    def __init__(self, experts: int, *, half_life: float = 256.0) -> None:
        self._score = [0.0] * experts
        self._growth = 2.0 ** (1.0 / half_life)
        self._weight = 1.0

    def touch(self, experts: Sequence[int]) -> None:
        self._weight *= self._growth
        if self._weight > self._LARGE:
            self._score = [score / self._weight for score in self._score]
            self._weight = 1.0
        weight, score = self._weight, self._score
        for expert in experts:
            score[expert] += weight

    def score(self, expert: int) -> float:
        """Comparable with those of other experts until the next event."""
        return self._score[expert]

    def victim(self, candidates: Iterable[int]) -> int:
        return min(candidates, key=self._score.__getitem__)


class Lfru:
    """Frequency over the square root of age, by event: what was used often and not long ago stays.

    A router comes back to its favourites, and goes on with what the last token chose; each of the two alone
    reads more. `tests/tools/moe_routing.py` compares them.
    """

    def __init__(self, experts: int, *, half_life: float = 32.0) -> None:
        self._frequency = Lfu(experts, half_life=half_life)
        self._last = [0] * experts
        self._event = 0

    def touch(self, experts: Sequence[int]) -> None:
        self._frequency.touch(experts)
        self._event += 1
        event, last = self._event, self._last
        for expert in experts:
            last[expert] = event

    def victim(self, candidates: Iterable[int]) -> int:
        frequency, last, now = self._frequency.score, self._last, self._event + 1
        return min(candidates, key=lambda expert: frequency(expert) / sqrt(now - last[expert]))


POLICIES: dict[str, type[Lru] | type[Lfu] | type[Lfru]] = {"lru": Lru, "lfu": Lfu, "lfru": Lfru}


def make_policy(name: str, experts: int) -> Policy:
    """The policy called `name` for a layer of `experts`. Raises UsageError for an unknown name."""
    if name not in POLICIES:
        raise UsageError(f"Unknown policy {name!r}.", hint=f"Choose one of: {', '.join(POLICIES)}.")
    return POLICIES[name](experts)
