"""Queues whose work is done late, and in any order that they and their markers allow."""

import random
import threading
from collections import deque
from collections.abc import Callable, Hashable


class Mark:
    """See `Marker`."""

    def __init__(self, queues: "LateQueues") -> None:
        self._queues, self.is_passed = queues, False

    def wait(self) -> None:
        self._queues.work_until(lambda: self.is_passed)


class LateQueues:
    """Nothing happens before somebody waits or calls `work`; then queues take turns by lot."""

    def __init__(self, seed: int) -> None:
        self._chooser = random.Random(seed)
        self._queues: dict[Hashable, deque[Callable[[], bool]]] = {}
        self._lock = threading.RLock()

    def add(self, name: Hashable, deed: Callable[[], object]) -> None:
        """Add work to a queue."""

        def piece() -> bool:
            deed()
            return True

        self._append(name, piece)

    def mark(self, name: Hashable) -> Mark:
        """A marker behind all work of a queue so far."""
        mark = Mark(self)
        self.add(name, lambda: setattr(mark, "is_passed", True))
        return mark

    def hold(self, name: Hashable, mark: Mark) -> None:
        """A queue goes on only after the marker."""
        self._append(name, lambda: mark.is_passed)

    def work(self, steps: int) -> None:
        """Do up to so many pieces of work."""
        with self._lock:
            for _ in range(steps):
                if not self._one():
                    return

    def work_until(self, done: Callable[[], bool]) -> None:
        with self._lock:
            while not done():
                assert self._one(), "the queues wait for each other"

    def drain(self) -> None:
        self.work_until(lambda: not any(self._queues.values()))

    def _append(self, name: Hashable, piece: Callable[[], bool]) -> None:
        with self._lock:
            self._queues.setdefault(name, deque()).append(piece)

    def _one(self) -> bool:
        """Do the first piece of a queue drawn by lot; False when none can go on."""
        waiting = [queue for queue in self._queues.values() if queue]
        self._chooser.shuffle(waiting)
        for queue in waiting:
            if queue[0]():
                queue.popleft()
                return True
        return False
