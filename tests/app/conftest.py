"""Fixtures of the app's tests: an own EBBTIDE_HOME, and clients that start the scripted engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ebbtide.engine.client import EngineClient
from tests.helpers.fake_engine import Script, command_line

FOREIGN_VARIABLES = (
    "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "HUGGINGFACE_HUB_CACHE",
)
MakeClient = Callable[[Script], EngineClient]


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
