"""Python's garbage collector, kept from stopping the screen in the middle of an answer.

A full collection looks at every object: with a long chat on the screen it took half a second to a second on a
busy machine, several times in a minute of streaming. So full ones are rare while text streams; one is made
when an answer has ended and nobody types.
"""

import gc

RARELY = (10_000, 20, 50)
"""Thresholds of the three generations; Python's own are (700, 10, 10)."""


def collect_rarely() -> None:
    """What the start has made is never looked at again: it lives as long as the program."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)


def collect_now() -> None:
    gc.collect()
