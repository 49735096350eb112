"""Fixtures of the app's tests: an own EBBTIDE_HOME, and clients that start the scripted engine."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # at the end: the root folders must shadow nothing

from ebbtide.engine.client import EngineClient  # noqa: E402
from tests.helpers.fake_engine import Script, command_line  # noqa: E402

FOREIGN_VARIABLES = (
    "EBBTIDE_MODEL", "EBBTIDE_BUDGET", "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HUGGINGFACE_HUB_CACHE",
)
MakeClient = Callable[[Script], EngineClient]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the person's own folders."""
    folder = tmp_path / "home"
    monkeypatch.setenv("EBBTIDE_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in FOREIGN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


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
