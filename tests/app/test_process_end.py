"""How the program ends from outside: signals, a closed pipe, and no process left behind. Real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from ebbtide.engine.messages import Cancel
from tests.helpers import fake_ebbtide
from tests.helpers.fake_engine import Script
from tests.helpers.waiting import PATIENCE_S, wait_for_end, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
ENDLESS = "word " * 10_000
"""With 10 ms a token: still being answered when every wait has long ended."""


@pytest.fixture(autouse=True)
def signals_arrive() -> Iterator[None]:
    """What this process ignores (a background job: SIGINT; nohup: SIGHUP) its children would ignore too.

    A handler that does nothing is the same to this process, and is not passed on.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    ignored = [number for number, handler in before.items() if handler is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, lambda *_: None)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def start(script: Script, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, fake_ebbtide.__file__, msgspec.json.encode(script).decode(), *arguments]
    root = Path(fake_ebbtide.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(root)])}
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    return subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=pipe, env=environment, text=True)


def children_of(process: "subprocess.Popen[str]") -> list[psutil.Process]:
    return list(psutil.Process(process.pid).children(recursive=True))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_cancels_the_request_first(number: int, code: int, model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    script = Script(answer=ENDLESS, token_delay_s=0.01, record=str(record))
    process = start(script, "run", model, "-p", "hi")
    assert process.stdout is not None
    assert process.stdout.read(4) == "word"
    children = children_of(process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code and "Traceback" not in errors
    wait_for_end(children)
    assert b'"cancel"' in record.read_bytes().splitlines()[2]
    assert msgspec.json.decode(record.read_bytes().splitlines()[2], type=Cancel).request_id == 1


def test_an_interrupted_json_run_prints_what_it_had(model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    script = Script(answer=ENDLESS, token_delay_s=0.01, record=str(record))
    process = start(script, "run", model, "-p", "hi", "--json")
    wait_until(lambda: record.exists() and b'"generate"' in record.read_bytes(), "the request")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert json.loads(out)["finish_reason"] == "cancelled"


def test_a_signal_while_loading(model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    script = Script(load_delay_s=60, progress_steps=600, record=str(record))
    process = start(script, "run", model, "-p", "hi")
    wait_until(lambda: record.exists() and b'"load"' in record.read_bytes(), "a model that is being loaded")
    children = children_of(process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    wait_for_end(children)


def test_a_closed_pipe_is_no_error(model: str) -> None:
    process = start(Script(answer=ENDLESS, token_delay_s=0.01), "run", model, "-p", "hi")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(4)
    children = children_of(process)
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == ""
    wait_for_end(children)


def test_nothing_is_left_after_sigkill_of_the_app(model: str) -> None:
    process = start(Script(answer=ENDLESS, token_delay_s=0.01), "run", model, "-p", "hi")
    assert process.stdout is not None
    process.stdout.read(4)
    children = children_of(process)
    assert children
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    wait_for_end(children)
