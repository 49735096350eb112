"""The real engine as a process: killed in the middle of an answer, orphaned, asked to end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from gguf import GGUFReader

from ebbtide.engine.client import Died, EngineClient
from ebbtide.engine.messages import Cancel, Finished, Generate, Load, Loaded, Token
from tests.helpers.tiny_models import CONTROLS, write_tiny
from tests.helpers.waiting import PATIENCE_S, wait_for_end

CONTEXT, BUDGET = 8192, "200MB"
LONG = 8000
"""Tokens of an answer that takes a minute: it is still being written when a test interrupts it."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Deep, so that a token takes its time, and never at the end of an answer."""
    path = tmp_path_factory.mktemp("process") / "deep.gguf"
    return without_end(write_tiny(path, "mixtral", layers=24, context=CONTEXT))


def without_end(path: Path) -> Path:
    """Zero the rows of control tokens in the output matrix: 0 is never the largest of hundreds of logits."""
    reader = GGUFReader(path, "r+")
    (output,) = (tensor for tensor in reader.tensors if tensor.name == "output.weight")
    output.data[: len(CONTROLS)] = 0
    output.data.flush()  # type: ignore[attr-defined]
    return path


@pytest.fixture
def client() -> Iterator[EngineClient]:
    client = EngineClient()
    client.start()
    yield client
    client.close()


def wait_for(client: EngineClient, kind: type[Any]) -> Any:
    while not isinstance(event := client.next_event(PATIENCE_S), kind):
        assert event is not None and not isinstance(event, Died), f"{event} while waiting for {kind.__name__}"
    return event


def begin(client: EngineClient, model: Path, request_id: int = 1) -> Token:
    client.send(Load(str(model), budget=BUDGET, ctx=CONTEXT, threads=1, pack="no"))
    wait_for(client, Loaded)
    client.send(Generate(request_id, text="def parse(text):", max_tokens=LONG))
    token: Token = wait_for(client, Token)
    return token


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
    while not isinstance(event := client.next_event(PATIENCE_S), Died):
        assert event is not None, "the death was not noticed"
    return event


ORPHAN = """
import sys, time
from ebbtide.engine.client import Died, EngineClient
from ebbtide.engine.messages import Generate, Load, Token
client = EngineClient()
client.start()
client.send(Load(sys.argv[1], budget=sys.argv[2], ctx=int(sys.argv[3]), threads=1, pack="no"))
client.send(Generate(1, text="def parse(text):", max_tokens=int(sys.argv[4])))
while not isinstance(event := client.next_event(60), Token):
    assert event is not None and not isinstance(event, Died), event
print(client.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_no_engine_outlives_a_killed_app(model: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(model), BUDGET, str(CONTEXT), str(LONG)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        engine = psutil.Process(int(app.stdout.readline()))
        app.kill()
    wait_for_end([engine])


def test_a_cancel_stops_a_running_answer(client: EngineClient, model: Path) -> None:
    begin(client, model)
    client.send(Cancel(1))
    finished: Finished = wait_for(client, Finished)
    assert finished.finish_reason == "cancelled" and 0 < len(finished.token_ids) < LONG


def test_closing_the_pipe_ends_the_process(client: EngineClient, model: Path) -> None:
    begin(client, model)
    engine = psutil.Process(client.pid)
    client.close()
    wait_for_end([engine])


UNUSABLE = """
import sys
sys.modules["ebbtide.engine.loop"] = None  # as with a module that cannot be imported
from ebbtide.engine.__main__ import main
main()
"""


def test_an_engine_that_cannot_start_says_why_and_ends_with_an_exit_code() -> None:
    command, pipe = [sys.executable, "-c", UNUSABLE], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as engine:
        # Its input stays open, as with the app: a thread is reading it when the engine ends.
        assert engine.wait(PATIENCE_S) == 1
        assert engine.stderr is not None
        said = engine.stderr.read()
    assert b"ebbtide.engine.loop" in said and b"Fatal Python error" not in said
