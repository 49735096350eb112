"""A card's two queues of work, computing and copying, as the pager's side sees them.

Work in one queue is done in order; the queues know nothing of each other unless one is told to wait for a
marker in the other. The host only adds work, and goes on at once.
"""

from typing import Protocol


class Marker(Protocol):
    """A place in a queue: passed once all work in front of it is done."""

    def wait(self) -> None:
        """Block the calling thread until it is passed."""
        ...


class Lanes(Protocol):
    """Used by the step thread, but for `Marker.wait`, which any thread may call."""

    def computed(self) -> Marker:
        """A marker behind all computation added so far."""
        ...

    def copied(self) -> Marker:
        """A marker behind all copies added so far."""
        ...

    def copying_waits(self, marker: Marker) -> None:
        """Copies added from now on are begun after `marker`."""
        ...

    def computing_waits(self, marker: Marker) -> None:
        """Computation added from now on is begun after `marker`."""
        ...

    def upload(self, host: int, device: int, nbytes: int) -> None:
        """Add a copy from host memory, which must stay as it is until a marker behind it is passed."""
        ...

    def scatter(self, staged: int, pages: int, page_bytes: int) -> None:
        """Add a copy of `pages` pages that lie one behind the other at `staged`, on the card, to where they
        belong: their addresses, as int64, follow behind the last page.
        """
        ...
