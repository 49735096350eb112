"""Jobs in a process of their own: result, errors with their codes, progress, and that they can be stopped."""

import sys
from pathlib import Path

import pytest

from ebbtide.app.background import run_job
from ebbtide.engine.errors import EngineDied, ModelError, NetworkError

JOB = """\
import sys, time
from ebbtide.app import jobs
from ebbtide.engine.errors import NetworkError

def work(reporter, kind):
    print("chatter on stdout does no harm")
    for done in range(1, 4):
        reporter.progress("working", done, 3)
    if kind == "fail":
        raise NetworkError("no network", hint="Connect.")
    if kind == "crash":
        sys.exit(9)
    if kind == "bug":
        raise KeyError("x")
    if kind == "endless":
        time.sleep(600)
    return kind

jobs.JOBS["test"] = work
sys.exit(jobs.main(sys.argv[1:]))
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    script = tmp_path / "job.py"
    script.write_text(JOB)
    return [sys.executable, str(script)]


def run(command: list[str], kind: str, seen: list[tuple[str, int, int]]) -> Path:
    return run_job(["test", kind], None, lambda *event: seen.append(event), command)


def test_the_result_and_progress(command: list[str]) -> None:
    seen: list[tuple[str, int, int]] = []
    assert run(command, "result", seen) == Path("result")
    assert seen[0][0] == "working" and seen[-1] == ("working", 3, 3)


def test_an_error_keeps_its_kind(command: list[str]) -> None:
    with pytest.raises(NetworkError, match="no network") as caught:
        run(command, "fail", [])
    assert caught.value.hint == "Connect." and "Traceback" in caught.value.__notes__[0]


def test_a_bug_is_an_internal_error(command: list[str]) -> None:
    with pytest.raises(Exception, match="KeyError") as caught:
        run(command, "bug", [])
    assert getattr(caught.value, "exit_code", None) == 1


def test_a_crash(command: list[str]) -> None:
    with pytest.raises(EngineDied, match="exited with code 9"):
        run(command, "crash", [])


def test_an_interrupted_wait_stops_the_job(command: list[str]) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_job(["test", "endless"], None, interrupt, command)


def test_a_pack_of_what_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"not a model at all")
    with pytest.raises(ModelError):
        run_job(["pack", str(path), "", str(tmp_path)], None, lambda *event: None)
