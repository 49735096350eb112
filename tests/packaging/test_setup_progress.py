"""What set-up shows while it works, on a terminal and in a log."""

from io import StringIO

import pytest
from setup_progress import CLEAR, Progress, duration

from tests.helpers.narrow_terminal import NarrowTerminal


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s")])
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_in_a_log_each_step_has_a_number_what_it_does_and_its_time() -> None:
    stream, clock = StringIO(), Clock()
    progress = Progress(2, stream, clock)
    with progress.step("compiling", "about a minute"):
        clock.now += 20
        progress.detail("7 of 28 files")
        progress.tick()
        clock.now += 45
    with progress.step("installing"):
        pass
    progress.end()
    assert stream.getvalue().splitlines() == [
        "ebbtide: step 1 of 2: compiling (about a minute)",
        "ebbtide:   20 s so far: 7 of 28 files",
        "ebbtide:   done in 1 min 5 s",
        "ebbtide: step 2 of 2: installing",
        "ebbtide: set-up complete in 1 min 5 s",
    ]


def test_on_a_terminal_one_line_is_drawn_again_and_gone_at_the_end() -> None:
    with NarrowTerminal(columns=40) as terminal:
        clock = Clock()
        progress = Progress(1, terminal.stream, clock)
        with progress.step("installing"):
            clock.now += 3
            progress.detail("fetching a file with a very long name")
            progress.tick()
            progress.say("a remark")
            terminal.resize(30)
            progress.tick()
        text = terminal.written()
    assert text.startswith("ebbtide: installing\n")  # a single step needs no number
    lines = text.split(CLEAR)
    assert lines[1] == "ebbtide:   installing, 3 s: fetching a…\r"
    assert lines[4] == "ebbtide:   installing, 3 s: …\r"
    assert f"{CLEAR}ebbtide: a remark\n{CLEAR}ebbtide:   installing, 3 s" in text
    assert text.endswith(f"{CLEAR}ebbtide:   done in 3 s\n") and text.count("\n") == 3


def test_a_step_that_fails_leaves_no_line_behind() -> None:
    stream, clock = Terminal(), Clock()
    progress = Progress(3, stream, clock)
    with pytest.raises(OSError, match="full"), progress.step("installing"):
        progress.tick()
        raise OSError("full")
    progress.tick()
    assert stream.getvalue().endswith(CLEAR)
