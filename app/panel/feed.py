"""All that the panel knows: the latest of each kind of event, the last decisions, a minute of speed.

It keeps up while the panel is hidden (that costs nothing), so that opening it shows the past minute at once.
"""

import time
from collections import deque
from collections.abc import Callable

from ebbtide.app.panel.traces import Recorder, Traces
from ebbtide.engine.client import ClientEvent, Died
from ebbtide.engine.frames import Frame
from ebbtide.engine.messages import (
    Decision,
    Failed,
    Finished,
    Ledger,
    Loaded,
    Machine,
    Memory,
    Progress,
    Residency,
    Snapshot,
)

DECISIONS_KEPT = 200


def _nobody() -> None:
    pass


class PanelFeed:
    """Fed with every event of one engine, on the application's own thread."""

    def __init__(self) -> None:
        self.loaded: Loaded | None = None
        self.snapshot: Snapshot | None = None
        self.residency: Residency | None = None
        self.machine: Machine | None = None
        self.memory: Memory | None = None
        """The latest ledger, from whichever event brought it."""
        self.first_token_s: float | None = None
        """Of the last answer."""
        self.decisions: deque[Decision] = deque(maxlen=DECISIONS_KEPT)
        self.alive = False
        self.loading = False
        self.version = 0
        """Changes with every event that may change what is drawn; not with `machine`, told every second."""
        self.on_change: Callable[[], None] = _nobody
        """Called with every change, for whoever shows it now."""
        self._finished: Finished | None = None
        self._recorder = Recorder()

    def take(self, event: ClientEvent, now: float | None = None) -> None:
        """Take an event; `now` in seconds of the monotonic clock."""
        if isinstance(event, Machine):
            self.machine = event
            self.on_change()
            return
        self._changed()
        match event:
            case Loaded():
                self._begin(event)
            case Snapshot():
                self.snapshot, self.memory = event, event.memory
                self._recorder.take(event, time.monotonic() if now is None else now)
            case Ledger():
                self.memory = event.memory
            case Residency():
                self.residency, self.memory = event, event.memory
            case Decision():
                self.decisions.append(event)
            case Finished():
                self.memory = event.memory
                self.first_token_s = event.timings.first_token_s or None
            case Progress():
                self.memory = self.residency = None  # another load has begun: what was loaded is gone
                self.loading = True
            case Failed():
                self.loading = False
            case Died():
                self.end()
                self.machine = None
            case _:
                pass

    def _begin(self, loaded: Loaded) -> None:
        self.loaded, self.memory, self.alive, self.loading = loaded, loaded.memory, True, False
        self.snapshot = self.residency = self.first_token_s = None
        self._recorder = Recorder()

    def end(self) -> None:
        """The engine is there no more, and none of its experts is in memory."""
        self.alive = self.loading = False
        self.residency = None
        self._changed()

    def attached(self, pid: int) -> None:
        """A viewer looks at another engine now, which has said nothing yet."""
        self.loaded = self._finished = self.snapshot = self.residency = self.machine = self.memory = None
        self.first_token_s, self._recorder, self.alive = None, Recorder(), True
        self.take(Decision(time.time(), "top", f"Attached to the new engine, process {pid}"))

    def take_frame(self, frame: Frame, now: float | None = None) -> None:
        """Take what a viewer of another process's engine got."""
        if frame.loaded is not None and frame.loaded != self.loaded:
            self.take(frame.loaded)
        if frame.finished is not None and frame.finished != self._finished:
            self._finished = frame.finished
            self.take(frame.finished)
        for event in (frame.snapshot, frame.residency, frame.machine):
            if event is not None and event not in (self.snapshot, self.residency, self.machine):
                self.take(event, now)
        last = self.decisions[-1] if self.decisions else None
        fresh = frame.decisions
        if last is not None and last in fresh:
            fresh = fresh[fresh.index(last) + 1 :]
        self.decisions.extend(fresh)
        if fresh:
            self._changed()

    def _changed(self) -> None:
        self.version += 1
        self.on_change()

    def traces(self, now: float | None = None) -> Traces:
        """The last minute."""
        return self._recorder.traces(time.monotonic() if now is None else now)
