"""Half an hour of streaming through a pseudo-terminal: what the app's memory, its CPU and its output do.

    python tests/tools/soak.py [--minutes 30] [--panel off|side|full] [--tokens-per-second 50]
                               [--pause 0.1] [--chat-answers 0] [--csv FILE] [--notes FILE]

The scripted engine streams one answer after the other into one chat, which grows by that; with
`--chat-answers N` into a new chat after every N of them: then what grows is not the chat. Printed: the
app's resident memory over time with the slope of a straight line through its last two thirds, the app's
share of one core, and the bytes written to the terminal per second. `--pause` is how long nothing is asked
after an answer, as a share of what the answer takes; with 0 there is always another question waiting, and
the app is never idle. `--csv` gets a line a minute while it runs; `--notes` gets what the memory consists of
(see `traced_app.py`), which costs some CPU.
"""

import argparse
import csv
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, TextIO

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers import traced_app
from tests.helpers.fake_engine import Script
from tests.helpers.terminal import Terminal

MIB = 1 << 20
EVERY_S = 5.0
NOTES_EVERY_S = 60.0
PANEL_KEYS = {"off": 0, "side": 1, "full": 2}
F2 = "\x1bOQ"
ANSWER = (
    "## Part\n\nSome words with **weight** and `code`, then a list:\n\n- one\n- two\n\n"
    "```python\ndef part(n):\n    return [i * n for i in range(n)]\n```\n\n"
) * 40


class CountingTerminal(Terminal):
    """Counts what is written and forgets it: half an hour of output is a lot."""

    forgotten = 0

    @property
    def written(self) -> int:
        """Bytes since the start."""
        return self.forgotten + len(self.output)

    def forget(self) -> None:
        count = len(self._chunks)  # the reader may append meanwhile
        self.forgotten += sum(map(len, self._chunks[:count]))
        del self._chunks[:count]


class Sample(NamedTuple):
    """`cpu_s` and `written` since the start of the program."""

    at_s: float
    resident: int
    cpu_s: float
    written: int


def sample(terminal: CountingTerminal, process: psutil.Process, began: float) -> Sample:
    times = process.cpu_times()
    return Sample(
        time.monotonic() - began,
        process.memory_info().rss,
        times.user + times.system,
        terminal.written,
    )


class Table:
    """A line for each whole minute: what is resident then; CPU and bytes of the minute before it."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._last: Sample | None = None
        self._rows = csv.writer(file)
        self._rows.writerow(["minute", "resident_mib", "cpu_share", "written_bytes_per_s"])

    def add(self, now: Sample) -> None:
        last = self._last
        if last is None:
            self._rows.writerow([0, f"{now.resident / MIB:.1f}", "", ""])
        elif now.at_s // 60 > last.at_s // 60:
            elapsed = now.at_s - last.at_s
            share, rate = (now.cpu_s - last.cpu_s) / elapsed, (now.written - last.written) / elapsed
            self._rows.writerow(
                [int(now.at_s // 60), f"{now.resident / MIB:.1f}", f"{share:.3f}", f"{rate:.0f}"]
            )
        else:
            return
        self._last = now
        self._file.flush()


def soak(
    terminal: CountingTerminal, minutes: float, period_s: float, chat_answers: int, table: Table
) -> list[Sample]:
    """Ask once every `period_s`; with `chat_answers` so often in one chat, then in the next."""
    process, began = psutil.Process(terminal.process.pid), time.monotonic()
    samples = [sample(terminal, process, began)]
    table.add(samples[0])
    asked_at, asked = float("-inf"), 0
    while samples[-1].at_s < 60 * minutes:
        if time.monotonic() - asked_at > period_s:
            if chat_answers and asked and asked % chat_answers == 0:
                terminal.send("/new\r")
                time.sleep(1.0)
            terminal.send("Go on.\r")  # queued if the answer is late
            asked += 1
            asked_at = time.monotonic()
        time.sleep(EVERY_S)
        terminal.forget()
        samples.append(sample(terminal, process, began))
        table.add(samples[-1])
    return samples


def report(samples: list[Sample]) -> str:
    first, last = samples[0], samples[-1]
    late = samples[len(samples) // 3 :]
    slope = statistics.linear_regression([s.at_s for s in late], [float(s.resident) for s in late]).slope
    elapsed = last.at_s - first.at_s
    places = [samples[round(share * (len(samples) - 1))] for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    memory = "  ".join(f"{s.at_s / 60:.0f} min {s.resident / MIB:.1f}" for s in places)
    return (
        f"resident MiB: {memory}\n"
        f"slope of the last two thirds: {slope * 3600 / MIB:+.2f} MiB an hour\n"
        f"CPU: {(last.cpu_s - first.cpu_s) / elapsed:.1%} of one core\n"
        f"written: {(last.written - first.written) / elapsed:,.0f} bytes a second"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--panel", choices=list(PANEL_KEYS), default="off")
    parser.add_argument("--tokens-per-second", type=float, default=50.0)
    parser.add_argument("--pause", type=float, default=0.1)
    parser.add_argument("--chat-answers", type=int, default=0)
    parser.add_argument("--csv", type=Path, default=Path(os.devnull))
    parser.add_argument("--notes", type=Path)
    options = parser.parse_args()
    script = Script(answer=ANSWER, token_delay_s=1 / options.tokens_per_second)
    with tempfile.TemporaryDirectory(prefix="ebbtide-soak-") as folder:
        os.environ["EBBTIDE_HOME"] = folder
        model = Path(folder, "tiny.gguf")
        model.write_bytes(b"GGUF")
        terminal = CountingTerminal(script, str(model), rows=40, columns=120)
        if options.notes is not None:
            terminal.command[1:2] = [traced_app.__file__, str(options.notes.resolve()), str(NOTES_EVERY_S)]
        with terminal, options.csv.open("w", newline="") as table:
            terminal.wait_for("ready")
            for _ in range(PANEL_KEYS[options.panel]):
                terminal.send(F2)
                time.sleep(1.0)
            period_s = (1 + options.pause) * len(ANSWER.split(" ")) / options.tokens_per_second
            print(report(soak(terminal, options.minutes, period_s, options.chat_answers, Table(table))))


if __name__ == "__main__":
    main()
