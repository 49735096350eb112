"""A deed that is done often while something happens, and rarely at rest: an idle screen leaves the processor
alone.
"""

import time
from collections.abc import Awaitable, Callable

from textual.message_pump import MessagePump
from textual.timer import Timer


class Beat:
    """`quick_s`: seconds from one time to the next while awake, for `awake_s` after each `wake`; `rest_s`: at
    rest. Nothing is done before `start`.
    """

    def __init__(
        self,
        deed: Callable[[], Awaitable[None] | None],
        quick_s: float,
        *,
        awake_s: float,
        rest_s: float,
    ) -> None:
        self._deed, self._quick_s, self._awake_s, self._rest_s = deed, quick_s, awake_s, rest_s
        self._until = self._paused_at = float("-inf")
        self._rests = True
        self._quick: Timer | None = None
        self._slow: Timer | None = None

    @property
    def rests(self) -> bool:
        """Nothing has happened for a while."""
        return self._rests

    def start(self, owner: MessagePump) -> None:
        """Go on until `stop`, or as long as `owner` lives; awake at first."""
        self._quick = owner.set_interval(self._quick_s, self._beat, pause=True)
        self._slow = owner.set_interval(self._rest_s, self._rest_beat)
        self.wake()

    def stop(self) -> None:
        """For good, or until the next `start`."""
        for timer in (self._quick, self._slow):
            if timer is not None:
                timer.stop()
        self._quick = self._slow = None
        self._rests = True

    def wake(self) -> None:
        """Something happens. The deed comes one interval later: what happens is dealt with first."""
        self._until = time.monotonic() + self._awake_s
        if self._rests and self._quick is not None:
            self._rests = False
            if time.monotonic() < self._paused_at + self._quick_s:
                self._quick.resume()  # it still waits for what would have been its next time
            else:
                self._quick.reset()

    async def _beat(self) -> None:
        is_last = time.monotonic() >= self._until
        await self._do()
        if is_last and time.monotonic() >= self._until and self._quick is not None:
            self._rests, self._paused_at = True, time.monotonic()
            self._quick.pause()

    async def _rest_beat(self) -> None:
        if self._rests:
            await self._do()

    async def _do(self) -> None:
        waits = self._deed()
        if waits is not None:
            await waits
