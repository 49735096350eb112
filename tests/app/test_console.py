"""Progress where nobody looks: long stages leave a few lines in a log, short ones none."""

import threading
import time
from io import StringIO

import pytest
from rich.cells import cell_len

from ebbtide.app.console import WIPE, ProgressPrinter, note
from ebbtide.app.progress_bar import bar_line
from ebbtide.app.stages import Pace, state_word
from ebbtide.app.ticking import ticking
from tests.helpers.narrow_terminal import NarrowTerminal
from tests.helpers.waiting import PATIENCE_S, wait_until


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def printed(stage: str, monkeypatch: pytest.MonkeyPatch, seconds: float = 5.0) -> list[str]:
    """Lines of a stage whose quarters take so long each."""
    stream, clock = StringIO(), Clock()
    clock.now = 100.0
    monkeypatch.setattr(time, "monotonic", clock)
    with ProgressPrinter(stream) as progress:
        for done in range(0, 101, 25):
            progress.update(stage, done << 20, 100 << 20)
            clock.now += seconds
    return stream.getvalue().splitlines()


def test_a_load_is_no_news_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    for stage in ("Loading", "loading", "Preparing the card"):
        assert printed(stage, monkeypatch) == []


def test_a_pack_is_news_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed("Packing", monkeypatch)
    assert lines[:2] == ["Packing: 0% of 100 MiB", "Packing: 25% of 100 MiB, about 15 s left"]
    assert len(lines) == 5


def test_what_is_soon_over_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed("verify", monkeypatch, 0.1) == ["Checking it: 0% of 100 MiB"]


def test_a_stage_of_unknown_length_has_no_share() -> None:
    stream = StringIO()
    with ProgressPrinter(stream) as progress:
        progress.update("prepare", 0, 0)
    assert stream.getvalue() == "Reading what the starter is built from\n"


def test_what_is_left_is_told_once_it_can_be_known() -> None:
    clock = Clock()
    pace = Pace(clock)
    assert pace.take("expand", 0, 1000) == ""
    clock.now = 1.0
    assert pace.take("expand", 500, 1000) == "", "too early"
    clock.now = 10.0
    assert pace.take("expand", 20, 1000) == "", "too little"
    assert pace.take("expand", 200, 1000) == ", about 40 s left"
    clock.now = 100.0
    assert pace.take("expand", 250, 1000) == ", about 5 min left"
    assert pace.take("expand", 1000, 1000) == ""
    assert pace.take("store", 0, 0) == ""
    clock.now = 200.0
    assert pace.take("store", 0, 0) == ""


def test_what_is_left_goes_down_while_nothing_new_comes() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.take("expand", 0, 4)
    clock.now = 20.0
    assert pace.take("expand", 1, 4) == ", about 60 s left"
    said = []
    for clock.now in (35.0, 50.0, 65.0, 79.5, 200.0):
        said.append(pace.take("expand", 1, 4))
    assert said == [", about 45 s left", ", about 30 s left", ", about 15 s left", "", ""]
    assert pace.take("expand", 2, 4) == ", about 3 min left"


def test_progress_is_repeated_until_the_end() -> None:
    told: list[tuple[str, int, int]] = []
    with ticking(lambda *progress: told.append(progress), 0.001) as update:
        time.sleep(0.01)
        assert told == [], "nothing was told that could be repeated"
        for done in (0, 1):
            update("racing", done, 2)
            wait_until(lambda done=done: told.count(("racing", done, 2)) > 3, "it is repeated")  # type: ignore[misc]
    count = len(told)
    time.sleep(0.01)
    assert len(told) == count and [*dict.fromkeys(told)] == [("racing", 0, 2), ("racing", 1, 2)]


def test_an_end_of_the_reader_ends_the_repeating_only() -> None:
    def refuse(*_: object) -> None:
        if threading.current_thread().name == "ticking":
            refused.set()
            raise BrokenPipeError

    refused = threading.Event()
    with ticking(refuse, 0.001) as update:
        update("racing", 0, 2)
        assert refused.wait(PATIENCE_S)


@pytest.mark.parametrize(
    ("stage", "word"),
    [
        ("download", ""),
        ("extract", "unpacking"),
        ("check", "checking"),
        ("expand", "building"),
        ("Packing", "packing"),
    ],
)
def test_each_stage_has_its_state(stage: str, word: str) -> None:
    assert state_word(stage) == word


WORDS = "Measuring a thing that has a rather long name"


@pytest.mark.parametrize("room", range(90))
def test_a_bar_fits_its_room(room: int) -> None:
    for words in (WORDS, "Packing", "漢字漢字漢字漢字漢字漢字"):
        for tails in (["", ""], [" of 738 MiB", ", about 50 s left"]):
            assert cell_len(bar_line(words, 0.17, tails, room)) <= room


def test_words_are_cut_first_then_the_bar() -> None:
    def line(room: int) -> str:
        return bar_line(WORDS, 0.5, ["", ", about 50 s left"], room)

    assert line(120).startswith(f"{WORDS[:39]}… ━━━━━━━━━━━━──")
    assert line(70).startswith("Measuring a thing that… ━━━━━━━━━━━━──")
    assert line(49) == "Measuring a… ━━━━━━━───────  50%, about 50 s left"
    assert line(20) == "Measuring a th…  50%"
    assert bar_line("Packing", 0.5, ["", ""], 120) == "Packing ━━━━━━━━━━━━────────────  50%"


def drawings(terminal: NarrowTerminal) -> list[str]:
    """What stood on the terminal's line, one after the other."""
    return [part.rstrip("\r") for part in terminal.written().split(WIPE)[1:]]


def test_progress_fits_a_terminal_that_gets_narrower(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.now = 100.0
    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setenv("TERM", "xterm-256color")
    with NarrowTerminal(columns=100) as terminal:
        with ProgressPrinter(terminal.stream) as progress:
            for done, columns in ((0, 100), (20, 100), (40, 50), (60, 30), (80, 100)):
                terminal.resize(columns)
                progress.update(WORDS, done << 20, 100 << 20)
                clock.now += 5
            *_, wide, narrow, narrowest, again = drawings(terminal)
            assert len(narrow) < 50 and len(narrowest) < 30 and min(len(wide), len(again)) > 90
            assert "\n" not in terminal.written()
            assert terminal.written().endswith("\r"), "the cursor is at the start, where wiping begins"
        assert drawings(terminal)[-1] == ""


def test_a_note_in_the_middle_takes_the_bar_s_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    with NarrowTerminal(columns=80) as terminal:
        monkeypatch.setattr("sys.stderr", terminal.stream)
        with ProgressPrinter() as progress:
            progress.update("Packing", 10, 100)
            note("Something else.")
            assert drawings(terminal)[-1] == "Something else.\n"
            progress.update("Packing", 100, 100)
        assert drawings(terminal)[-1] == ""
