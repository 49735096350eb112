"""How long from the start of the process to the first painted screen, beside an empty Textual application.

    python tests/tools/first_paint.py [--runs 9]

Both are started in turn on a pseudo-terminal with the scripted engine; median, smallest and largest time are
printed, and whether the app's process has loaded torch.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.fake_engine import Script
from tests.helpers.terminal import Terminal

PAINTED = b"sk about code"
"""The prompt's placeholder, behind its first letter, which is the cursor."""
BARE = """
from textual.app import App
from textual.widgets import Static
class Bare(App):
    def compose(self):
        yield Static("Ask about code")
Bare().run()
"""
PATIENCE_S = 60.0


def seconds_to_paint(terminal: Terminal) -> float:
    """Start the program and wait for the paint. The caller ends it."""
    began = time.perf_counter()
    terminal.__enter__()
    while PAINTED not in terminal.output:
        if time.perf_counter() - began > PATIENCE_S:
            sys.exit("nothing was painted")
        time.sleep(0.002)
    return time.perf_counter() - began


def has_torch(pid: int) -> bool:
    return any("torch" in mapped.path for mapped in psutil.Process(pid).memory_maps())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=9)
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {"ebbtide": [], "empty Textual app": []}
    torch = False
    with tempfile.TemporaryDirectory(prefix="ebbtide-paint-") as folder:
        os.environ["EBBTIDE_HOME"] = folder
        model = Path(folder, "tiny.gguf")
        model.write_bytes(b"GGUF")
        bare = Path(folder, "bare.py")
        bare.write_text(BARE)
        for _ in range(options.runs):
            for name, found in seconds.items():
                terminal = Terminal(Script(), str(model))
                if name != "ebbtide":
                    terminal.command = [sys.executable, str(bare)]
                found.append(seconds_to_paint(terminal))
                if name == "ebbtide":
                    terminal.wait_for("ready")
                    torch = torch or has_torch(terminal.process.pid)
                terminal.__exit__(None, None, None)
    for name, found in seconds.items():
        print(f"{name:18} {statistics.median(found):.3f} s  ({min(found):.3f} .. {max(found):.3f})")
    print(f"torch in the app's process: {'yes' if torch else 'no'}")
    sys.exit(torch)


if __name__ == "__main__":
    main()
