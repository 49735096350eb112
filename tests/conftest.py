"""What holds for every test: no network, an own EBBTIDE_HOME, few threads, the same examples on every run."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before anything imports torch or numpy
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")

settings.register_profile(
    "ebbtide",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],  # that is the machine
)
settings.load_profile("ebbtide")

LOCAL_HOSTS = {"127.0.0.1", "::1", "localhost"}


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder that EBBTIDE_HOME names during the test; no test sees the person's settings, models or chats."""
    home = tmp_path / "ebbtide-home"
    monkeypatch.setenv("EBBTIDE_HOME", str(home))
    for name in ("EBBTIDE_MODEL", "EBBTIDE_BUDGET", "EBBTIDE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the models of a module and their packs. What writes them imports numpy: it is imported late."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def mixtral(folder: Path) -> Path:
    """8 planes in every block."""
    from tests.helpers.tiny_models import EIGHT_EXPERTS, write_tiny

    return write_tiny(folder / "mixtral.gguf", "mixtral", **EIGHT_EXPERTS)


@pytest.fixture(scope="module")
def uneven(folder: Path) -> Path:
    """Gate and up have 8 planes, down has 5."""
    from tests.helpers.tiny_models import EIGHT_EXPERTS, write_tiny

    types = {"*down_exps*": "Q5_0"}
    return write_tiny(folder / "uneven.gguf", "qwen3moe", types=types, **EIGHT_EXPERTS)


def refuse_foreign_hosts(connect: Callable[..., Any]) -> Callable[..., Any]:
    """`socket.connect` that reaches this machine only."""

    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in LOCAL_HOSTS:
            raise OSError(f"a test tried to reach {address[0]}")
        return connect(self, address)

    return guarded


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets of the test's own process reach this machine only."""
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse_foreign_hosts(getattr(socket.socket, name)))
