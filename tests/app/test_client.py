"""The engine's process as the app sees it: events, death, restart, and that none is left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ebbtide.engine import stderr_log
from ebbtide.engine.client import ClientEvent, Died, EngineClient, describe_exit
from ebbtide.engine.errors import ContextError, EngineDied, UsageError
from ebbtide.engine.messages import Cancel, Finished, Generate, Load, Loaded, Token
from ebbtide.engine.wire import MAX_FRAME_BYTES
from tests.helpers.app_types import MakeClient
from tests.helpers.fake_engine import Script, command_line
from tests.helpers.waiting import PATIENCE_S, wait_for_end, wait_until


@pytest.fixture(autouse=True)
def patient_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines are asserted below, so they are waited for even on a slow machine."""
    monkeypatch.setattr(stderr_log, "END_WAIT_S", PATIENCE_S)


def until(client: EngineClient, kind: type[ClientEvent]) -> list[ClientEvent]:
    """All events up to and including the first of `kind`."""
    seen: list[ClientEvent] = []
    while not seen or not isinstance(seen[-1], kind):
        event = client.next_event(PATIENCE_S)
        assert event is not None, f"no {kind.__name__} after {seen}"
        seen.append(event)
    return seen


def test_load_and_generate(make_client: MakeClient) -> None:
    client = make_client(Script(answer="one two three"))
    client.send(Load("/models/tiny.gguf"))
    loaded = until(client, Loaded)[-1]
    assert isinstance(loaded, Loaded) and loaded.name == "tiny"
    client.send(Generate(client.next_request_id(), text="hi"))
    events = until(client, Finished)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.text == "one two three"
    assert "".join(event.text for event in events if isinstance(event, Token)) == finished.text


def test_cancel_in_the_middle(make_client: MakeClient) -> None:
    client = make_client(Script(answer="word " * 10_000, token_delay_s=0.005))
    client.send(Generate(1, text="hi"))
    until(client, Token)
    client.send(Cancel(1))
    finished = until(client, Finished)[-1]
    assert isinstance(finished, Finished) and finished.finish_reason == "cancelled"


def test_death_by_signal_is_an_event_with_the_last_lines(make_client: MakeClient) -> None:
    client = make_client(Script(answer="a b c d", die_after_tokens=2, log="about to crash"))
    client.send(Generate(1, text="hi"))
    died = until(client, Died)[-1]
    assert isinstance(died, Died)
    assert died.returncode == -signal.SIGKILL and "SIGKILL" in died.reason
    assert died.stderr_tail == ("about to crash",)
    assert isinstance(died.error(), EngineDied) and died.error().exit_code == 7
    assert not client.running


def test_death_by_exit_code(make_client: MakeClient) -> None:
    died = until(make_client(Script(die_at_start=3)), Died)[-1]
    assert isinstance(died, Died) and (died.returncode, died.reason) == (3, "exited with code 3")


def test_garbage_on_the_pipe_ends_the_engine(make_client: MakeClient) -> None:
    client = make_client(Script(answer="a b c d", garbage_after_tokens=1))
    client.send(Generate(1, text="hi"))
    died = until(client, Died)[-1]
    assert isinstance(died, Died) and "unreadable" in died.reason


def test_restart_after_death_and_no_old_event(make_client: MakeClient) -> None:
    client = make_client(Script(answer="a b c d", die_after_tokens=1))
    client.send(Generate(1, text="hi"))
    until(client, Token)
    wait_until(lambda: not client.running, "the death of the engine")
    client.restart()
    client.send(Load("/models/tiny.gguf"))
    assert [type(event) for event in until(client, Loaded)] == [Loaded]


def test_send_after_death_does_not_raise(make_client: MakeClient) -> None:
    client = make_client(Script(die_at_start=1))
    until(client, Died)
    client.send(Load("/models/tiny.gguf"))
    assert client.next_event(0.05) is None


def test_close_is_silent_and_leaves_no_process(make_client: MakeClient) -> None:
    client = make_client(Script())
    pid = client.pid
    assert pid is not None
    client.close()
    assert client.next_event(0.05) is None
    assert not psutil.pid_exists(pid)


def test_close_kills_what_does_not_listen(make_client: MakeClient) -> None:
    client = make_client(Script(ignore_shutdown=True))
    client.send(Load("/models/tiny.gguf"))
    until(client, Loaded)
    pid = client.pid
    assert pid is not None
    client.close(grace_s=0.1)
    assert not psutil.pid_exists(pid)


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(EngineDied, match="could not be started"):
        EngineClient(command=["/nonexistent/engine"]).start()


def test_stderr_goes_to_the_log_file(tmp_path: Path) -> None:
    log = tmp_path / "state" / "engine.log"
    client = EngineClient(command=command_line(Script(log="a line", die_at_start=1)), log_path=log)
    client.start()
    until(client, Died)
    client.close()
    assert log.read_text() == "a line\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
@pytest.mark.parametrize("ignore_shutdown", [False, True])
def test_no_orphan_after_the_app_is_killed(ignore_shutdown: bool, tmp_path: Path) -> None:
    """With `ignore_shutdown` the end of the pipe is not enough: only the kernel's signal ends the engine."""
    app = tmp_path / "app.py"
    script = Script(ignore_shutdown=ignore_shutdown)
    app.write_text(
        "import time\n"
        "from ebbtide.engine.client import EngineClient\n"
        f"client = EngineClient(command={command_line(script)!r})\n"
        "client.start()\n"
        "from ebbtide.engine.messages import Load\n"
        "client.send(Load('/x.gguf'))\n"
        "client.next_event()\n"
        "print(client.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, str(app)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    engine = psutil.Process(int(process.stdout.readline()))
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_for_end([engine])


@pytest.mark.parametrize(
    ("returncode", "words"), [(0, "exited with code 0"), (-11, "was killed by SIGSEGV"), (-200, "signal 200")]
)
def test_exit_in_words(returncode: int, words: str) -> None:
    assert words in describe_exit(returncode)


def test_heavy_modules_stay_out_of_the_app_process() -> None:
    code = (
        "import sys, ebbtide.engine.client, ebbtide.engine.wire, ebbtide.engine.messages\n"
        "heavy = {'torch', 'numpy', 'gguf', 'tokenizers', 'huggingface_hub'} & set(sys.modules)\n"
        "sys.exit(' '.join(sorted(heavy)) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_text_that_no_frame_can_carry_is_refused_at_once(make_client: MakeClient) -> None:
    client = make_client(Script())
    with pytest.raises(UsageError, match="UTF-8"):
        client.send(Load("/models/\udcff.gguf"))
    with pytest.raises(ContextError, match="too long"):
        client.send(Generate(1, text="x" * (MAX_FRAME_BYTES + 1)))
    client.send(Load("/models/tiny.gguf"))
    until(client, Loaded)
