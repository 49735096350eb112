"""The real llama.cpp in its own process, on a tiny file."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ebbtide.app.cli import main
from ebbtide.app.compare.configurations import CONFIGURATIONS
from ebbtide.app.compare.llama_process import WORKER_COMMAND, LlamaFailed, LlamaProcess
from tests.helpers.tiny_models import write_tiny

pytest.importorskip("llama_cpp")
PATIENCE_S = 60


@pytest.fixture
def worker() -> Iterator[LlamaProcess]:
    process = LlamaProcess(WORKER_COMMAND)
    yield process
    process.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf", "mixtral")


def load(path: Path, parameters: dict[str, object]) -> dict[str, object]:
    return {"do": "load", "model": str(path), "threads": 1, "ctx": 256, "parameters": parameters}


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda configuration: configuration.name)
def test_every_configuration_is_known_to_llama_cpp(
    worker: LlamaProcess, configuration: object, tiny: Path
) -> None:
    described = worker.ask(load(tiny, configuration.parameters), PATIENCE_S)  # type: ignore[attr-defined]
    assert described["ctx"] == 256 and described["version"]
    answer = worker.ask({"do": "run", "text": "the thing in the end", "tokens": 4}, PATIENCE_S)
    assert answer["prompt_tokens"] > 4 and answer["peak_bytes"] > 1 << 20
    assert 0 < answer["prefill_s"] < answer["first_token_s"] and answer["decode_s"] > 0


def test_what_it_refuses_is_said(worker: LlamaProcess, tmp_path: Path) -> None:
    path = tmp_path / "no.gguf"
    path.write_bytes(b"GGUF and nothing more")
    with pytest.raises(LlamaFailed, match="refused"):
        worker.ask(load(path, {}), PATIENCE_S)


def test_a_parameter_of_another_version_is_a_refusal(worker: LlamaProcess, tiny: Path) -> None:
    with pytest.raises(LlamaFailed, match="no use_magic"):
        worker.ask(load(tiny, {"use_magic": True}), PATIENCE_S)


def test_a_command_that_does_not_exist() -> None:
    with pytest.raises(LlamaFailed, match="could not be started"):
        LlamaProcess(["/nowhere/llama"])


@pytest.fixture
def race(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, Any]]:
    """A whole race, both contenders real, on prompts of so many tokens."""
    monkeypatch.setattr("ebbtide.app.stream_rate.BUFFER_BYTES", 1 << 20)
    monkeypatch.setattr("ebbtide.app.cli.raise_on_termination", lambda: None)

    def run(prefill: str) -> dict[str, Any]:
        measures = ["--prefill", prefill, "--decode", "4", "--runs", "2", "--threads", "1"]
        assert main(["compare", str(tiny), *measures, "--json"]) == 0
        return dict(json.loads(capsys.readouterr().out))

    return run


def test_a_real_race(race: Callable[[str], dict[str, Any]]) -> None:
    result = race("24")
    assert result["llama_cpp"]["failures"] == [] and result["llama_cpp"]["configuration"]["threads"] == 1
    assert ":" not in result["llama_cpp"]["machine"]["isa"]
    assert result["prefill_ratio"]["24"] > 0 and result["first_token_ratio"] > 0
    for counts in result["prompt_tokens"].values():
        assert counts["ebbtide"] == counts["llama_cpp"] > 0


def test_prompts_that_nearly_fill_the_models_context(race: Callable[[str], dict[str, Any]]) -> None:
    """The context that is asked for has some slack, which this model's 512 tokens have no room for."""
    result = race("430")
    assert result["ebbtide"]["configuration"]["ctx"] == 512
    assert result["llama_cpp"]["configuration"]["ctx"] == 512
