"""Where all events of an engine pass: out to the app, and the latest of each kind kept for viewers."""

import os
import threading
import time
from collections import deque
from typing import IO, TypeVar

from ebbtide.engine.frames import DECISIONS_KEPT, Frame
from ebbtide.engine.messages import Decision, Event, Finished, Loaded, Machine, Residency, Snapshot
from ebbtide.engine.wire import write_message

Kind = TypeVar("Kind", Loaded, Snapshot, Finished, Residency, Machine)


class Hub:
    """`emit` may be called by any thread; keeping an event costs one assignment and waits for nobody."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._writing = threading.Lock()
        self._latest: dict[type[Event], Event] = {}
        self._decisions: deque[Decision] = deque(maxlen=DECISIONS_KEPT)

    def emit(self, event: Event) -> None:
        """Send one event to the app. Raises BrokenPipeError when it is gone."""
        if isinstance(event, Decision):
            self._decisions.append(event)
        elif isinstance(event, Loaded):
            self._latest = {Loaded: event}
        elif isinstance(event, Snapshot | Finished | Residency | Machine):
            self._latest[type(event)] = event
        with self._writing:
            write_message(self._pipe, event)

    def frame(self) -> Frame:
        """The present state, for a viewer. Called on viewers' threads."""
        latest = self._latest
        return Frame(
            pid=os.getpid(),
            at=time.time(),
            loaded=_one(latest, Loaded),
            snapshot=_one(latest, Snapshot),
            finished=_one(latest, Finished),
            residency=_one(latest, Residency),
            machine=_one(latest, Machine),
            decisions=list(self._decisions),
        )


def _one(latest: dict[type[Event], Event], kind: type[Kind]) -> Kind | None:
    event = latest.get(kind)
    return event if isinstance(event, kind) else None
