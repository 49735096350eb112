"""Progress that is told again while nothing new comes: the time left then goes down on the screen."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Update = Callable[[str, int, int], None]
EVERY_S = 1.0


@contextmanager
def ticking(update: Update, every_s: float = EVERY_S) -> Iterator[Update]:
    """What to call instead of `update`, whose last call is repeated every `every_s` seconds, on a thread of
    its own, but never two at a time and none after the end.
    """
    last: list[tuple[str, int, int]] = []
    one_at_a_time, ended = threading.Lock(), threading.Event()

    def told(stage: str, done: int, total: int) -> None:
        with one_at_a_time:
            last[:] = [(stage, done, total)]
            update(stage, done, total)

    def repeat() -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody can be told any more: whoever works will see
            while not ended.wait(every_s):
                with one_at_a_time:
                    if last:
                        update(*last[0])

    thread = threading.Thread(target=repeat, name="ticking", daemon=True)
    thread.start()
    try:
        yield told
    finally:
        ended.set()
        thread.join()
