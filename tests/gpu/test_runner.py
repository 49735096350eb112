"""The runner: what one part does wrong hides nothing of the others."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.rows import Row, as_json, table
from tests.gpu.runner import Emit, Part, run_parts

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a real card is checked on Linux")


def told(*cases: str, then: Callable[[], object] = lambda: None) -> Callable[[Emit, float], None]:
    """Work that tells these rows and then does something."""

    def work(emit: Emit, deadline: float) -> None:
        for case in cases:
            emit(Row(case, case, 1.0, passed=True))
        then()

    return work


def part(
    name: str, then: Callable[[], object] = lambda: None, *, most_s: float = 60, alone: bool = False
) -> Part:
    return Part(name, told(name, then=then), least_s=0, most_s=most_s, alone=alone)


def run(*parts: Part, total_s: float = 60, together: int = 2) -> list[Row]:
    heard: list[Row] = []
    rows = run_parts(parts, total_s, heard.append, together=together)
    assert heard == rows
    return [row for row in rows if row.case != "time taken"]


def fail() -> None:
    raise ValueError("a wrong number\nand a second line")


@pytest.mark.parametrize(
    ("deed", "said"), [(fail, "ValueError: a wrong number"), (lambda: os._exit(9), "ended with code 9")]
)
def test_a_part_that_fails_or_dies_is_a_row_and_the_others_go_on(deed: Callable[[], None], said: str) -> None:
    rows = run(part("first"), part("bad", deed), part("last"))
    assert [row.case for row in rows if row.part in ("first", "last")] == ["first", "last"]
    before, after = (row for row in rows if row.part == "bad")
    assert before.passed and after.passed is False and said in after.note
    assert ("in fail" in after.trace) == (deed is fail)


def test_a_part_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    found = tmp_path / "pid"

    def hang() -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        found.write_text(str(child.pid))
        child.wait()

    rows = run(part("slow", hang, most_s=2), part("last"), together=1)
    assert [row.passed for row in rows] == [True, False, True] and "its time was over" in rows[1].note
    stat = Path(f"/proc/{found.read_text()}/stat")
    while stat.exists() and ") Z " not in stat.read_text():
        time.sleep(0.01)


def test_what_does_not_fit_into_the_time_is_said_to_be_left_out() -> None:
    rows = run(Part("long", told("long"), least_s=100, most_s=200), part("short"), total_s=50)
    assert "left out" in rows[0].note and rows[0].passed is False and rows[1].passed


def test_a_part_that_measures_time_runs_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def note(name: str) -> Callable[[], None]:
        def write() -> None:
            for what in ("begin", "end"):
                with log.open("a") as file:
                    file.write(f"{what} {name}\n")
                time.sleep(0.05)

        return write

    run(part("a", note("a")), part("b", note("b"), alone=True), part("c", note("c")))
    assert log.read_text().split("\n")[2:4] == ["begin b", "end b"]


def test_the_table_and_the_json_say_the_same() -> None:
    rows = [
        Row("a", "speed", 71.25, "%", ">= 70", True),
        Row("b", "all", passed=False, note="gone", trace="x"),
    ]
    lines = table(rows).splitlines()
    assert lines[1].split() == ["a", "speed", "71.25", "%", ">=", "70", "ok"]
    assert lines[2].split() == ["b", "all", "FAILED", "gone"]
    found = as_json(rows, dry=True, seed=3, seconds=1.23)
    assert found["passed"] is False and found["dry_run"] and found["rows"][1]["trace"] == "x"
    assert [row["verdict"] for row in found["rows"]] == ["ok", "FAILED"]
