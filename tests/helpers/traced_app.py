"""The program with the scripted engine, and a thread that notes what its memory consists of.

    traced_app.py FILE EVERY_S SCRIPT_JSON ARGUMENTS...

A line of JSON each time: objects that the garbage collector follows and the most frequent types, how often
and how long it collected, blocks of Python's own allocator, and the C library's account of its heap (what
is in use, what is free but kept).
"""

import collections
import ctypes
import gc
import sys
import threading
import time
from pathlib import Path

import msgspec

from ebbtide.app.cli import main
from ebbtide.app.context import AppContext
from tests.helpers.fake_engine import Script, command_line

MOST_TYPES = 25


class Mallinfo2(ctypes.Structure):
    """As in glibc's malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def heap() -> dict[str, int]:
    """Bytes of the C library's heap; empty where the library does not tell."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return {}
    mallinfo2.restype = Mallinfo2
    info = mallinfo2()
    return {"used": info.uordblks, "free": info.fordblks, "mapped": info.hblkhd}


class Pauses:
    """Counts full collections and the seconds for which they stopped the program."""

    def __init__(self) -> None:
        self.count, self.seconds, self.longest_s = 0, 0.0, 0.0
        self._began = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began = time.perf_counter()
            return
        took = time.perf_counter() - self._began
        self.count, self.seconds, self.longest_s = (
            self.count + 1,
            self.seconds + took,
            max(self.longest_s, took),
        )


PAUSES = Pauses()


def note() -> dict[str, object]:
    objects = gc.get_objects()
    types = collections.Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in objects)
    return {
        "at_s": time.monotonic(),
        "objects": len(objects),
        "frozen": gc.get_freeze_count(),
        "pending": gc.get_count(),
        "collections": [generation["collections"] for generation in gc.get_stats()],
        "collected": [generation["collected"] for generation in gc.get_stats()],
        "blocks": sys.getallocatedblocks(),
        "heap": heap(),
        "full_collections": vars(PAUSES),
        "types": dict(types.most_common(MOST_TYPES)),
    }


def keep_notes(file: Path, every_s: float) -> None:
    with file.open("wb") as out:
        while True:
            time.sleep(every_s)
            out.write(msgspec.json.encode(note()) + b"\n")
            out.flush()


if __name__ == "__main__":
    gc.callbacks.append(PAUSES)
    path, seconds, script = sys.argv[1:4]
    threading.Thread(target=keep_notes, args=(Path(path), float(seconds)), daemon=True).start()
    engine = command_line(msgspec.json.decode(script.encode(), type=Script))
    sys.exit(main(sys.argv[4:], AppContext(engine_command=engine)))
