"""Fixtures of the app's tests: an own home, clients of the scripted engine, the command line."""

import asyncio
import inspect
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.app import cli as cli_module
from ebbtide.app.context import AppContext
from ebbtide.engine.client import EngineClient
from tests.helpers.app_types import Cli, MakeClient, Result
from tests.helpers.fake_engine import Script, command_line

FOREIGN_VARIABLES = (
    "HF_HOME",
    "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE",
    "LLAMA_CACHE",
    "OLLAMA_MODELS",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run tests that are coroutines; each gets an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(autouse=True)
def home(own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The app's tests see no models of other programs either."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in FOREIGN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return own_home


@pytest.fixture
def make_client() -> Iterator[MakeClient]:
    clients: list[EngineClient] = []

    def make(script: Script) -> EngineClient:
        client = EngineClient(command=command_line(script))
        clients.append(client)
        client.start()
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A file that the scripted engine takes for a model."""
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF")
    return str(path)


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs the program in this process with the scripted engine."""
    monkeypatch.setattr(cli_module, "raise_on_termination", lambda: None)

    def run(*arguments: str, script: Script = Script(), stdin: str = "") -> Result:  # noqa: B008 - immutable
        piped = io.BytesIO(stdin.encode("utf-8", "surrogateescape"))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(piped, "utf-8"))
        code = cli_module.main(arguments, AppContext(engine_command=command_line(script)))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run
