"""How long from a key to the screen, through a pseudo-terminal: 50, 95 and 99 % of some hundred keys.

    python tests/tools/keystrokes.py                       an empty chat, nothing running
    python tests/tools/keystrokes.py --stream              while the scripted engine streams an answer
    python tests/tools/keystrokes.py --turns 500 --stream  in a long chat
    python tests/tools/keystrokes.py --model FILE          while a real engine generates on all cores

Each key is one letter; the clock stops when the terminal has been sent a redraw that holds it.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ebbtide.app.paths import find_paths
from ebbtide.app.store import open_store
from tests.helpers.fake_engine import Script
from tests.helpers.terminal import Terminal

PAUSE_S = (0.05, 0.15)
"""Between two keys, as a fast typist."""
PATIENCE_S = 10.0
LINE = 40
LETTERS = ("ÄÖÜÇÑ", "ÅØŒÆŠ")
"""By turns, so that a letter is never redrawn where it stands already: that would write nothing."""


def fill(turns: int) -> str:
    """A chat of so many turns; returns its id."""
    with open_store(find_paths().chats) as store:
        chat, parent = store.create_chat(title="long"), None
        for number in range(turns // 2):
            question = store.add_message(chat.id, parent, "user", f"question {number}?")
            text = f"Answer {number} with **bold**.\n\n```python\nx = {number}\n```\n\n- one\n- two\n"
            parent = store.add_message(chat.id, question.id, "assistant", text).id
        return chat.id


def key_to_screen_s(terminal: Terminal, letter: str) -> float:
    """Press a letter and wait until a redraw of the prompt holds it."""
    at, began = len(terminal.output), time.perf_counter()
    terminal.send(letter)
    while time.perf_counter() - began < PATIENCE_S:
        if letter.encode() in terminal.output[at:]:
            return time.perf_counter() - began
        time.sleep(0.0005)
    raise TimeoutError(f"{letter!r} never came")


def measure(terminal: Terminal, keys: int) -> list[float]:
    """Letters that are in no answer, so that the redraw that holds one is the prompt's."""
    chooser, seconds = random.Random(1), []
    for number in range(keys):
        time.sleep(chooser.uniform(*PAUSE_S))
        seconds.append(key_to_screen_s(terminal, LETTERS[number // LINE % 2][number % 5]))
        if number % LINE == LINE - 1:
            terminal.send("\x15")  # back to an empty line
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--model")
    wish = parser.parse_args()
    if wish.model is None:
        home = tempfile.TemporaryDirectory(prefix="ebbtide-keys-")
        os.environ["EBBTIDE_HOME"] = home.name
    sys.exit(run(wish))


def run(wish: argparse.Namespace) -> int:
    chat = ["--chat", fill(wish.turns)] if wish.turns else []
    script = Script(answer="word and more words\n\n" * 4_500, token_delay_s=0.01)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "tiny.gguf")
        model.write_bytes(b"GGUF")
        with Terminal(script, wish.model or str(model), *chat, real=wish.model is not None) as terminal:
            terminal.wait_for("ready")
            if wish.stream or wish.model:
                terminal.send("Count to one thousand, one number per line.\r")
                terminal.wait_for("answering")
            time.sleep(2.0)
            seconds = sorted(measure(terminal, wish.keys))
    for share in (0.5, 0.95, 0.99):
        print(f"{share:.0%} {seconds[min(int(share * len(seconds)), len(seconds) - 1)] * 1e3:7.1f} ms")
    print(
        f"max {seconds[-1] * 1e3:7.1f} ms, mean {statistics.mean(seconds) * 1e3:.1f} ms, {len(seconds)} keys"
    )
    return 0


if __name__ == "__main__":
    main()
