"""Speed, hit rate and bytes moved over the last minute, second by second, from the engine's snapshots."""

from dataclasses import dataclass, field

from ebbtide.engine.messages import Snapshot

SECONDS = 60
ENOUGH_S = 0.2
"""A second of which less was observed says nothing about a rate."""


@dataclass
class _Second:
    """What was observed in one second of the clock; `decode_s` and `busy_s` are the time it took."""

    tokens: float = 0.0
    decode_s: float = 0.0
    hits: float = 0.0
    misses: float = 0.0
    moved: float = 0.0
    busy_s: float = 0.0

    @property
    def decode_tok_s(self) -> float | None:
        return self.tokens / self.decode_s if self.decode_s >= ENOUGH_S else None

    @property
    def hit_rate(self) -> float | None:
        routed = self.hits + self.misses
        return self.hits / routed if routed > 0 else None

    @property
    def moved_bytes_s(self) -> float | None:
        return self.moved / self.busy_s if self.busy_s >= ENOUGH_S else None


@dataclass
class Trace:
    """One figure: `values` has one entry a second, oldest first, None where nothing was observed."""

    values: list[float | None] = field(default_factory=list)
    now: float | None = None
    most: float = 0.0
    """The maximum since the load."""


@dataclass(frozen=True)
class Traces:
    """The three figures of the panel at one moment."""

    decode_tok_s: Trace
    hit_rate: Trace
    moved_bytes_s: Trace
    misses_per_token: float | None
    bytes_per_token: float | None


class Recorder:
    """Takes snapshots with the time (seconds, any origin) of their arrival; spreads each step over it."""

    def __init__(self) -> None:
        self._seconds: dict[int, _Second] = {}
        self._last: tuple[float, Snapshot] | None = None
        self._most: dict[str, float] = {}

    def take(self, snapshot: Snapshot, now: float) -> None:
        """Record what happened since the snapshot before, if that belongs to the same request.

        How long it took is the engine's to say: on a busy machine two snapshots may arrive at once.
        """
        before, self._last = self._last, (now, snapshot)
        if before is None or before[1].request_id != snapshot.request_id:
            return
        timed = before[1].at_s > 0.0 and snapshot.at_s > 0.0
        took = snapshot.at_s - before[1].at_s if timed else now - before[0]
        if took > 0.0:
            self._spread(now - took, now, before[1], snapshot)
        self._forget(int(now) - SECONDS)

    def _spread(self, start: float, end: float, old: Snapshot, new: Snapshot) -> None:
        decodes = old.phase == new.phase == "decode"
        for second in range(int(start), int(end) + 1):
            overlap = min(end, second + 1) - max(start, second)
            if overlap <= 0:
                continue
            share = overlap / (end - start)
            here = self._seconds.setdefault(second, _Second())
            here.busy_s += overlap
            here.hits += share * max(new.expert_hits - old.expert_hits, 0)
            here.misses += share * max(new.expert_misses - old.expert_misses, 0)
            here.moved += share * max(new.memory.bytes_paged_in - old.memory.bytes_paged_in, 0)
            if decodes:
                here.decode_s += overlap
                here.tokens += share * max(new.completion_tokens - old.completion_tokens, 0)
            self._note_most(here)

    def _note_most(self, second: _Second) -> None:
        for name in ("decode_tok_s", "hit_rate", "moved_bytes_s"):
            value = getattr(second, name)
            if value is not None:
                self._most[name] = max(self._most.get(name, 0.0), value)

    def _forget(self, before: int) -> None:
        for second in [second for second in self._seconds if second < before]:
            del self._seconds[second]

    def traces(self, now: float) -> Traces:
        """The minute that ends now."""
        last = int(now)
        seconds = [self._seconds.get(second) for second in range(last - SECONDS + 1, last + 1)]
        seen = [second for second in seconds[-10:] if second is not None]
        tokens = sum(second.tokens for second in seen)
        return Traces(
            self._trace("decode_tok_s", seconds),
            self._trace("hit_rate", seconds),
            self._trace("moved_bytes_s", seconds),
            sum(second.misses for second in seen) / tokens if tokens else None,
            sum(second.moved for second in seen) / tokens if tokens else None,
        )

    def _trace(self, name: str, seconds: list[_Second | None]) -> Trace:
        values = [getattr(second, name) if second is not None else None for second in seconds]
        recent = [value for value in values[-3:] if value is not None]
        return Trace(values, recent[-1] if recent else None, self._most.get(name, 0.0))
