"""`ebbtide rm`: says what goes, asks, and leaves alone what a running chat uses."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.app.paths import find_paths
from ebbtide.engine.endpoint import Endpoint
from ebbtide.engine.frames import Frame
from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script
from tests.helpers.terminal import Terminal


@pytest.fixture
def kept() -> Path:
    """A model in ebbtide's own folder."""
    folder = find_paths().models
    folder.mkdir(parents=True)
    path = folder / "mine.gguf"
    path.write_bytes(b"GGUF" * (1 << 18))
    return path


@pytest.fixture
def engine(home: Path) -> Iterator[Endpoint]:
    """An engine that runs: this process is."""
    endpoint = Endpoint(
        find_paths().engines, os.getpid(), lambda: Frame(os.getpid(), 0.0), lambda watch: None
    )
    yield endpoint
    endpoint.close()


def test_a_model_in_use_is_not_removed(kept: Path, engine: Endpoint, cli: Cli) -> None:
    engine.uses(str(kept))
    refused = cli("rm", "mine")
    assert refused.code == 2 and kept.exists()
    assert "in use" in refused.err and str(os.getpid()) in refused.err and "--force" in refused.err
    assert cli("rm", "mine", "--yes").code == 2 and kept.exists(), "--yes answers another question"
    engine.uses("")
    assert cli("rm", "mine").code == 0 and not kept.exists()


def test_a_model_beside_the_one_in_use_is_removed(kept: Path, engine: Endpoint, cli: Cli) -> None:
    engine.uses(str(kept.with_name("other.gguf")))
    assert cli("rm", "mine").code == 0 and not kept.exists()


def test_force_removes_what_is_in_use(kept: Path, engine: Endpoint, cli: Cli) -> None:
    engine.uses(str(kept))
    assert cli("rm", "mine", "--force").code == 0 and not kept.exists()


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_it_says_what_goes_and_asks(kept: Path, answer: str) -> None:
    with Terminal(Script(), "rm", "mine") as terminal:
        terminal.wait_for("1.0 MiB", "mine.gguf", "Remove 1.0 MiB for good?")
        assert kept.exists()
        terminal.send(f"{answer}\n")
        assert terminal.wait_for_end() == 0
    assert kept.exists() == (answer == "n")


def test_yes_asks_nothing(kept: Path) -> None:
    with Terminal(Script(), "rm", "mine", "--yes") as terminal:
        assert terminal.wait_for_end() == 0
    assert not kept.exists()
