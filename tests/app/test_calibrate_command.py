"""`ebbtide calibrate` with the real engine: what it prints, what it refuses, how it is interrupted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ebbtide.app import cli as cli_module
from ebbtide.app.context import AppContext
from ebbtide.app.stages import of_total
from ebbtide.engine.client import Died, EngineClient
from ebbtide.engine.messages import Calibrate, Calibrated, Failed, Load, Progress
from tests.helpers.app_types import Result
from tests.helpers.tiny_imatrix import write_gguf_imatrix
from tests.helpers.tiny_models import write_tiny

Run = Callable[..., Result]
TEXT = "".join(f"def tell{at}(self, name):\n    return self.names[{at * at}] in name\n" for at in range(700))
"""About 30,000 tokens of the tiny vocabulary."""
BEHIND_A_CHECKPOINT = range(5_000, 15_000)
"""Tokens of 20,000: a checkpoint follows each eighth passage."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf", "qwen3moe"))


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.py"
    path.write_text(TEXT)
    return str(path)


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program in this process with the engine in another."""
    monkeypatch.setattr(cli_module, "raise_on_termination", lambda: None)

    def run(*arguments: str) -> Result:
        code = cli_module.main(["calibrate", *arguments], AppContext())
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


def test_the_path_is_the_answer(command: Run, tiny: str, text: str, own_home: Path) -> None:
    done = command(tiny, "--text", text, "--tokens", "1200")
    assert done.code == 0, done.err
    assert Path(done.out.strip()).parent == own_home / "cache" / "calibration"
    assert Path(done.out.strip()).is_file() and "Calibrated with 1,200 tokens" in done.err


def test_json(command: Run, tiny: str, text: str) -> None:
    result = json.loads(command(tiny, "--text", text, "--tokens", "1200", "--json").out)
    fields = ["model", "file", "bytes", "tokens", "experts", "unused_experts", "residuals", "seconds"]
    assert list(result) == fields
    assert result["tokens"] == 1200 and result["experts"] == 8 and result["unused_experts"] == 0
    assert result["bytes"] == Path(result["file"]).stat().st_size


def test_few_tokens_leave_experts_that_nobody_chose(command: Run, tiny: str, text: str) -> None:
    done = command(tiny, "--text", text, "--tokens", "2")
    assert done.code == 0 and "of 8 experts were never chosen" in done.err


def test_an_imatrix_takes_the_place_of_a_text(command: Run, tiny: str, text: str, tmp_path: Path) -> None:
    shapes = {"gate": 128, "down": 96}
    entries = {
        f"blk.{layer}.ffn_{name}_exps.weight": (np.full((4, cols), 3.0), [2] * 4)
        for layer in range(2)
        for name, cols in shapes.items()
    }
    path = str(write_gguf_imatrix(tmp_path / "imatrix.gguf", entries))
    done = command(tiny, "--imatrix", path, "--json")
    assert done.code == 0 and json.loads(done.out)["tokens"] == 4
    for also in (["--text", text], ["--tokens", "9"], ["--resume"]):
        refused = command(tiny, "--imatrix", path, *also)
        assert refused.code == 2 and "--imatrix" in refused.err
    refused = command(tiny, "--imatrix", text)
    assert refused.code == 3 and "'text.py' is not an imatrix file" in refused.err
    assert "llama-imatrix" in refused.err


@pytest.mark.parametrize(("content", "word"), [(b"", "There is no text"), (None, "cannot be read")])
def test_a_text_that_cannot_be_used(
    content: bytes | None, word: str, command: Run, tiny: str, tmp_path: Path
) -> None:
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    refused = command(tiny, "--text", str(path))
    assert refused.code == 2 and word in refused.err


def test_a_file_that_is_no_model(command: Run, text: str) -> None:
    assert command(text, "--text", text).code == 3


def wish(cache: Path, text: str, *, resume: bool = False) -> Calibrate:
    return Calibrate(1, str(cache), text_path=text, max_tokens=20_000, resume=resume)


def outcome_of(client: EngineClient) -> Calibrated | Failed | Died:
    while True:
        event = client.next_event(60)
        assert event is not None
        if isinstance(event, Calibrated | Failed | Died):
            return event


def calibrated(tiny: str, cache: Path, text: str, *, resume: bool = False) -> bytes:
    client = EngineClient()
    client.start()
    client.send(Load(tiny, device="cpu"))
    client.send(wish(cache, text, resume=resume))
    outcome = outcome_of(client)
    client.close()
    assert isinstance(outcome, Calibrated), outcome
    return Path(outcome.path).read_bytes()


def test_a_killed_engine_loses_a_checkpoint_at_most(tiny: str, text: str, tmp_path: Path) -> None:
    cache = tmp_path / "cut"
    client = EngineClient()
    client.start()
    client.send(Load(tiny, device="cpu"))
    client.send(wish(cache, text))
    while not (isinstance(event := client.next_event(60), Progress) and event.done in BEHIND_A_CHECKPOINT):
        assert event is not None
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    assert isinstance(outcome_of(client), Died)
    client.close()
    (part,) = (path.name for path in (cache / "calibration").iterdir() if path.suffix == ".npz")
    assert part.endswith(".part.npz"), "it was over before it was killed"
    assert calibrated(tiny, cache, text, resume=True) == calibrated(tiny, tmp_path / "whole", text)


def test_ctrl_c_ends_it_with_130_and_resume_goes_on(
    command: Run, tiny: str, text: str, own_home: Path
) -> None:
    arguments = ["calibrate", tiny, "--text", text, "--tokens", "20000"]
    program = [sys.executable, "-c", "from ebbtide.app.cli import main; raise SystemExit(main())"]
    process = subprocess.Popen([*program, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    folder = own_home / "cache" / "calibration"
    while process.poll() is None and not list(folder.glob("*.part.npz")):
        pass
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b""), err
    assert b"--resume" in err
    assert [path.name.endswith(".part.npz") for path in folder.iterdir()] == [True]
    assert command(*arguments[1:], "--resume").code == 0


def test_totals_are_in_tokens() -> None:
    assert of_total(51200, "Calibrating") == " of 51,200 tokens"
    assert of_total(51200, "Packing") == "" and of_total(738 << 20, "Packing") == " of 738 MiB"
