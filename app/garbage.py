"""Python's garbage collector, kept from stopping the screen in the middle of an answer, and from never
coming.

Widgets that were let go refer to each other, so only a full collection frees them; and a full one looks at
every object, which stops the screen for some tenths of a second. So it is made when an answer has ended and
nobody types. Where that moment does not come (questions wait in the queue, an answer of an hour) the
garbage of every minute would be some 60 MiB; so it is made between two answers, or at last in the middle of
one, when enough has been made since.
"""

import gc

from textual._styles_cache import StylesCache

RARELY = (10_000, 20, 10)
"""Thresholds of the three generations; Python's own are (700, 10, 10). The second is collected about five
times in a minute of streaming.
"""
DUE = 3
"""So many collections of the second generation since the last full one: what they kept may be garbage by
now."""


def collect_rarely() -> None:
    """What the start has made is never looked at again: it lives as long as the program."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARELY)


def collect_now() -> None:
    """All of it, and what a cache of Textual's holds: the lines that up to 1,024 widgets had drawn which are
    gone since.
    """
    StylesCache.get_inner_outer.cache_clear()
    gc.collect()


def collect_if_due() -> None:
    """Between two answers: nobody looks for the next word yet."""
    if gc.get_count()[2] >= DUE:
        collect_now()
