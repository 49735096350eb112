"""Who looks at memory, and how often: `Residency` events at safe points, and nothing at all for nobody."""

from collections.abc import Callable

from ebbtide.engine.messages import Residency, Watch
from ebbtide.engine.telemetry import RateLimit

Take = Callable[[], Residency]
SHORTEST_S = 0.05
"""Nobody needs to look more often; a picture is not free."""


class Watcher:
    """Called at every safe point; `emit` gets what is due.

    `rate_changed` hears the interval of the most eager viewer in seconds, or 0 for nobody.
    """

    def __init__(
        self, emit: Callable[[Residency], None], rate_changed: Callable[[float], None] = lambda every_s: None
    ) -> None:
        self._emit, self._rate_changed = emit, rate_changed
        self._wishes: dict[str, float] = {}
        self._limit: RateLimit | None = None
        self._last: Residency | None = None

    @property
    def watched(self) -> bool:
        return self._limit is not None

    def watch(self, command: Watch) -> None:
        """Take a viewer's wish; the next safe point sends a picture."""
        if command.every_s > 0:
            self._wishes[command.viewer] = max(command.every_s, SHORTEST_S)
        else:
            self._wishes.pop(command.viewer, None)
        every_s = min(self._wishes.values(), default=0.0)
        self._limit = RateLimit(every_s) if self._wishes else None
        self._last = None
        self._rate_changed(every_s)

    def look(self, take: Take) -> None:
        """A safe point in the middle of work."""
        if self._limit is not None and self._limit.ready():
            self._send(take())

    def rest(self, take: Take) -> None:
        """Work is over for now: the last state is sent too, unless it was sent already."""
        if self._limit is not None and (picture := take()) != self._last:
            self._send(picture)

    def _send(self, picture: Residency) -> None:
        self._last = picture
        self._emit(picture)
