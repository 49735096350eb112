"""The real engine as a process: killed in the middle of an answer, orphaned, asked to end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ebbtide.engine.client import Died, EngineClient
from ebbtide.engine.messages import Cancel, Finished, Generate, Load, Loaded, Token
from tests.helpers.tiny_models import write_tiny

LONG = 400
"""Tokens of an answer that is still being written when the test interrupts it."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Deep, so that hundreds of tokens take seconds and not an instant.
    return write_tiny(tmp_path_factory.mktemp("process") / "deep.gguf", "mixtral", layers=24, context=1024)


@pytest.fixture
def client() -> Iterator[EngineClient]:
    client = EngineClient()
    client.start()
    yield client
    client.close()


def wait_for(client: EngineClient, kind: type[Any]) -> Any:
    while not isinstance(event := client.next_event(60), kind):
        assert event is not None and not isinstance(event, Died), f"{event} while waiting for {kind.__name__}"
    return event


def begin(client: EngineClient, model: Path, request_id: int = 1) -> Token:
    client.send(Load(str(model), budget="100%", threads=1, pack="no"))
    wait_for(client, Loaded)
    client.send(Generate(request_id, text="def parse(text):", max_tokens=LONG))
    token: Token = wait_for(client, Token)
    return token


def gone(pid: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_a_killed_engine_is_noticed_and_replaced(client: EngineClient, model: Path) -> None:
    assert begin(client, model).text
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    died = wait_for_death(client)
    assert died.returncode == -signal.SIGKILL and "SIGKILL" in died.reason and died.error().exit_code == 7
    client.restart()
    begin(client, model, request_id=2)
    client.send(Cancel(2))
    assert wait_for(client, Finished).finish_reason == "cancelled"


def wait_for_death(client: EngineClient) -> Died:
    while not isinstance(event := client.next_event(30), Died):
        assert event is not None, "the death was not noticed"
    return event


ORPHAN = """
import sys, time
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Generate, Load, Token
client = EngineClient()
client.start()
client.send(Load(sys.argv[1], budget="100%", threads=1, pack="no"))
client.send(Generate(1, text="def parse(text):", max_tokens=400))
while not isinstance(client.next_event(60), Token):
    pass
print(client.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_no_engine_outlives_a_killed_app(model: Path) -> None:
    app = subprocess.Popen([sys.executable, "-c", ORPHAN, str(model)], stdout=subprocess.PIPE, text=True)
    assert app.stdout is not None
    engine = int(app.stdout.readline())
    app.kill()
    app.wait()
    assert gone(engine, within_s=2.0)


def test_a_cancel_stops_a_running_answer(client: EngineClient, model: Path) -> None:
    begin(client, model)
    client.send(Cancel(1))
    finished: Finished = wait_for(client, Finished)
    assert finished.finish_reason == "cancelled" and 0 < len(finished.token_ids) < LONG


def test_closing_the_pipe_ends_the_process(client: EngineClient, model: Path) -> None:
    begin(client, model)
    pid = client.pid
    assert pid is not None
    client.close()
    assert gone(pid, within_s=2.0)
