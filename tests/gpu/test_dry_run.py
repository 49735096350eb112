"""The check of a card, as far as it can go without one: the same script, at tiny sizes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers.triton_interpreter import IS_MISSING

pytestmark = pytest.mark.skipif(
    IS_MISSING or not hasattr(os, "fork"), reason="a real card is checked on Linux"
)
COMPILING = {"compile gemv", "compile experts", "compile attention"}
NO_GOALS = {*COMPILING, "copies", "gemv speed", "experts speed", "attention speed"}
"""Speed has no goal where there is no card."""
SCRIPT = Path(__file__).with_name("check_card.py")


class Done(NamedTuple):
    code: int
    table: list[str]
    found: dict[str, Any]


def dry_run(folder: Path, *options: str) -> Done:
    """Run it from another folder, with an environment that knows nothing of this one."""
    target = folder / "found.json"
    command = [sys.executable, str(SCRIPT), "--dry-run", "--seed", "5", "--json", str(target), *options]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRITON", "PYTHON"))
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert target.exists(), done.stderr
    return Done(done.returncode, done.stdout.splitlines(), json.loads(target.read_text()))


def test_every_part_runs_and_passes_and_the_json_has_what_the_table_has(tmp_path: Path) -> None:
    from tests.gpu.parts import ENTRIES

    done = dry_run(tmp_path)
    rows = done.found["rows"]
    assert done.code == 0, "\n".join(done.table)
    assert done.found["passed"] and done.found["dry_run"] and done.found["seed"] == 5
    for entry in ENTRIES:
        own = [row for row in rows if row["part"] == entry.name]
        assert own[-1]["case"] == "time taken" and (len(own) > 1 or entry.name in COMPILING), entry.name
        assert (entry.name in NO_GOALS) != any(row["passed"] for row in own), entry.name
    assert done.table[0].split() == ["part", "case", "figure", "unit", "goal", "verdict"]
    assert len(done.table) == len(rows) + 2
    for line, row in zip(done.table[1:], rows, strict=False):
        assert line.startswith(row["part"]) and row["case"] in line and row["verdict"] in line
        assert row["note"] in line


def test_a_part_that_fails_is_told_and_hides_nothing(tmp_path: Path) -> None:
    done = dry_run(tmp_path, "--only", "machine,vectors,memory", "--break", "vectors")
    assert done.code == 1 and not done.found["passed"] and done.table[-1].startswith("NOT all")
    broken = [row for row in done.found["rows"] if row["verdict"] == "FAILED"]
    assert [(row["part"], row["note"]) for row in broken] == [("vectors", "RuntimeError: made to fail")]
    assert "in _work" in broken[0]["trace"]
    passed = {row["part"] for row in done.found["rows"] if row["passed"]}
    assert passed == {"machine", "memory"}


def test_a_name_that_is_no_part_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--dry-run", "--only", "nothing"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no part nothing; parts: machine, " in done.stderr
