"""How long a person waits for the first screen and for the first key, beside an empty Textual application.

    python tests/tools/first_paint.py [--runs 9]

Both programs are started in turn on a pseudo-terminal, with bytecode caches as at every start but the first:

    first frame    the prompt with its placeholder is on the terminal
    Textual paint  it is there, painted by Textual
    first key      a letter that was typed when the process started is in the prompt (in runs of their own)

Median, smallest and largest time are printed, and whether the app's process has loaded torch or numpy.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.fake_engine import Script
from tests.helpers.terminal import Terminal

PLACEHOLDER = b"sk about code"
"""Behind its first letter, which is the cursor."""
KEY = "§"
"""In no escape sequence, and in no other text of the screens."""
TEXTUAL_STARTS = b"\x1b[?1000h"
"""Textual asks for the mouse before it paints; no first frame does."""
EMPTY_APP = """
from textual.app import App
from textual.widgets import Input
class Empty(App):
    def compose(self):
        yield Input(placeholder="Ask about code")
Empty().run()
"""
HEAVY = ("torch", "numpy")
FIGURES = ("first frame", "Textual paint", "first key")
PATIENCE_S = 60.0


def seconds_until(began: float, found: Callable[[], bool]) -> float:
    while not found():
        if time.perf_counter() - began > PATIENCE_S:
            sys.exit("the program did not get so far")
        time.sleep(0.001)
    return time.perf_counter() - began


def by_textual(terminal: Terminal, text: bytes) -> bool:
    """Whether Textual has written it."""
    output = terminal.output
    start = output.find(TEXTUAL_STARTS)
    return start >= 0 and text in output[start:]


def times_of_paint(terminal: Terminal) -> tuple[float, float]:
    """(first frame, Textual paint)"""
    began = time.perf_counter()
    with terminal:
        frame = seconds_until(began, lambda: PLACEHOLDER in terminal.output)
        paint = seconds_until(began, lambda: by_textual(terminal, PLACEHOLDER))
        heavy.update(name for name in HEAVY if is_loaded(terminal.process.pid, name))
    return frame, paint


def time_of_key(terminal: Terminal) -> float:
    began = time.perf_counter()
    with terminal:
        terminal.send(KEY)
        return seconds_until(began, lambda: by_textual(terminal, KEY.encode()))


def is_loaded(pid: int, library: str) -> bool:
    """Whether a process has mapped a file of the library."""
    return any(f"/{library}/" in mapped.path for mapped in psutil.Process(pid).memory_maps())


heavy: set[str] = set()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=9)
    runs: int = parser.parse_args().runs
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    seconds: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="ebbtide-paint-") as folder:
        os.environ["EBBTIDE_HOME"] = folder
        model, empty = Path(folder, "tiny.gguf"), Path(folder, "empty.py")
        model.write_bytes(b"GGUF")
        empty.write_text(EMPTY_APP)

        def terminals() -> dict[str, Terminal]:
            """Not started yet."""
            other = Terminal(Script())
            other.command = [sys.executable, str(empty)]
            return {"ebbtide": Terminal(Script(), str(model), real=True), "empty Textual app": other}

        for run in range(runs + 1):
            for name, terminal in terminals().items():
                found = (*times_of_paint(terminal), time_of_key(terminals()[name]))
                if run > 0:  # the first one writes the bytecode caches
                    for figure, value in zip(FIGURES, found, strict=True):
                        seconds.setdefault((name, figure), []).append(value)
    for (name, figure), values in seconds.items():
        if (name, figure) != ("empty Textual app", FIGURES[0]):
            spread = f"({min(values):.3f} .. {max(values):.3f})"
            print(f"{name:17}  {figure:13}  {statistics.median(values):.3f} s  {spread}")
    verdicts = ", ".join(f"{name} {'yes' if name in heavy else 'no'}" for name in HEAVY)
    print(f"in the app's process: {verdicts}")
    sys.exit(bool(heavy))


if __name__ == "__main__":
    main()
