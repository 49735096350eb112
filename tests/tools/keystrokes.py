"""How long from a key to the screen, through a pseudo-terminal: 50, 95 and 99 % of some hundred keys.

    python tests/tools/keystrokes.py                           an empty chat, nothing running
    python tests/tools/keystrokes.py --stream                  while the scripted engine streams an answer
    python tests/tools/keystrokes.py --turns 500 --stream      in a long chat
    python tests/tools/keystrokes.py --turns 500 --model FILE --threads 2
                                                               while a real engine generates on two cores
    python tests/tools/keystrokes.py --paste                   from a pasted megabyte to its chip, five times

Each key is one letter; the clock stops when the terminal has been sent a redraw that holds it. Flags that are
not of this tool go to ebbtide. Of a long chat all turns are shown, but only the newest go to the engine (the
older are left out, as /trim does). An answer that ends is followed by the next question; the last line tells
how many keys fell into an answer. A real model runs in the usual home (EBBTIDE_HOME), from which the chat is
removed at the end.
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
from tests.helpers.waiting import wait_until

PAUSE_S = (0.05, 0.15)
"""Between two keys, as a fast typist."""
PATIENCE_S = 10.0
SETTLE_S = 2.0
LINE = 40
PASTED, PASTES = 1 << 20, 5
SENT = 20
"""So many of the newest turns of a long chat are sent to the model."""
QUESTION = "Explain in detail how a hash table works, step by step, with examples and their code."
LETTERS = ("ÄÖÜÇÑ", "ÅØŒÆŠ")
"""By turns, so that a letter is never redrawn where it stands already: that would write nothing."""


class KeptChat:
    """The chat in the store, which the program and this tool both see."""

    def __init__(self, turns: int) -> None:
        """Begin one of so many turns."""
        self._store = open_store(find_paths().chats)
        self.id = self._store.create_chat(title="keystrokes").id
        parent, messages = None, []
        for number in range(turns // 2):
            question = self._store.add_message(self.id, parent, "user", f"question {number}?")
            text = f"Answer {number} with **bold**.\n\n```python\nx = {number}\n```\n\n- one\n- two\n"
            parent = self._store.add_message(self.id, question.id, "assistant", text).id
            messages += [question.id, parent]
        self._store.set_left_out(messages[:-SENT], True)

    @property
    def is_answered(self) -> bool:
        """Whether an answer is being written now."""
        tree = self._store.whole_tree(self.id)
        return bool(tree) and tree[-1].role == "assistant" and tree[-1].state == "partial"

    def remove(self) -> None:
        self._store.delete_chat(self.id)
        self._store.close()


def key_to_screen_s(terminal: Terminal, letter: str) -> float:
    """Press a letter and wait until a redraw of the prompt holds it."""
    at, began = len(terminal.output), time.perf_counter()
    terminal.send(letter)
    while time.perf_counter() - began < PATIENCE_S:
        if letter.encode() in terminal.output[at:]:
            return time.perf_counter() - began
        time.sleep(0.0005)
    raise TimeoutError(f"{letter!r} never came")


def ask(terminal: Terminal, chat: KeptChat) -> None:
    """Begin an answer, and wait until it is under way."""
    terminal.send("\x15" + QUESTION + "\r")
    wait_until(lambda: chat.is_answered, "an answer")


def measure(terminal: Terminal, chat: KeptChat, keys: int, *, asks: bool) -> tuple[list[float], int]:
    """Letters that are in no answer, so that the redraw that holds one is the prompt's. Returns the seconds
    of each; with `asks` only those that fell into an answer count, and how many others there were is told.
    """
    chooser, seconds, pressed = random.Random(1), list[float](), 0
    while len(seconds) < keys:
        if asks and not chat.is_answered:
            ask(terminal, chat)
        time.sleep(chooser.uniform(*PAUSE_S))
        began_inside = chat.is_answered
        took = key_to_screen_s(terminal, LETTERS[pressed // LINE % 2][pressed % 5])
        if not asks or (began_inside and chat.is_answered):
            seconds.append(took)
        pressed += 1
        if pressed % LINE == 0:
            terminal.send("\x15")  # back to an empty line
    return seconds, pressed - keys


def pastes(terminal: Terminal) -> list[float]:
    """Seconds from a pasted megabyte to its chip on the screen, and on to a key behind it."""
    text = "one line of a file that is pasted as it is, number 1234\n" * (PASTED // 55)
    seconds = []
    for number in range(PASTES):
        at, began = len(terminal.output), time.perf_counter()
        terminal.paste(text)
        terminal.wait_for("pasted", after=at)
        key_to_screen_s(terminal, LETTERS[number % 2][0])
        seconds.append(time.perf_counter() - began)
        terminal.send("\x15")
        time.sleep(SETTLE_S)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--paste", action="store_true")
    parser.add_argument("--model")
    wish, flags = parser.parse_known_args()
    if wish.model is None:
        home = tempfile.TemporaryDirectory(prefix="ebbtide-keys-")
        os.environ["EBBTIDE_HOME"] = home.name
    run(wish, flags)


def run(wish: argparse.Namespace, flags: list[str]) -> None:
    script = Script(answer="word and more words\n\n" * 4_500, token_delay_s=0.01)
    asks = wish.stream or wish.model is not None
    chat = KeptChat(wish.turns)
    try:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder, "tiny.gguf")
            model.write_bytes(b"GGUF")
            arguments = [wish.model or str(model), "--chat", chat.id, *flags]
            with Terminal(script, *arguments, real=wish.model is not None) as terminal:
                terminal.wait_for("ready")
                if asks:
                    ask(terminal, chat)
                time.sleep(SETTLE_S)
                if wish.paste:
                    print("a pasted megabyte:", ", ".join(f"{each:.3f} s" for each in pastes(terminal)))
                    return
                seconds, others = measure(terminal, chat, wish.keys, asks=asks)
    finally:
        chat.remove()
    seconds.sort()
    for share in (0.5, 0.95, 0.99):
        print(f"{share:.0%} {seconds[min(int(share * len(seconds)), len(seconds) - 1)] * 1e3:7.1f} ms")
    print(
        f"max {seconds[-1] * 1e3:7.1f} ms, mean {statistics.mean(seconds) * 1e3:.1f} ms, {len(seconds)} keys"
    )
    if asks:
        print(f"all while an answer was written; {others} others are not counted")


if __name__ == "__main__":
    main()
