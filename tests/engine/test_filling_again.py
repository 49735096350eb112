"""Idle memory is filled once, and again only where something changed that experts may gain from."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.memory.pager import Pager
from tests.engine.test_bounds_by_hand import after_load
from tests.engine.test_widths_that_follow import SIZES, Watched, growing, loaded
from tests.helpers.in_process import generate
from tests.helpers.tiny_models import write_tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "mixtral.gguf", "mixtral", **SIZES)


@pytest.fixture
def fills(monkeypatch: pytest.MonkeyPatch) -> list[Pager]:
    """A pager for every time that it was asked to fill memory."""
    asked: list[Pager] = []
    fill = Pager.warm

    def counted(pager: Pager, progress: Callable[[int, int], None]) -> int:
        asked.append(pager)
        return fill(pager, progress)

    monkeypatch.setattr(Pager, "warm", counted)
    return asked


def test_an_answer_that_changes_nothing_is_no_reason(model: Path, fills: list[Pager]) -> None:
    seen = Watched(loaded(model, budget="100%"))
    asked = [generate(number, max_tokens=2, text="def") for number in (1, 2, 3)]
    after_load(seen, *(lambda command=command: command for command in asked))
    assert len(seen.ends) == 3 and len(fills) == 1, "after the load"


def test_pages_that_came_free_are(model: Path, fills: list[Pager]) -> None:
    seen = Watched(loaded(model, budget="100%"))
    after_load(seen, lambda: m.Evict(1, 2), m.Clear)
    assert len(fills) == 2 and all(all(layer) for layer in seen.table.resident)


def test_widths_that_were_committed_are(model: Path, fills: list[Pager]) -> None:
    seen = Watched(loaded(model))
    counted: list[tuple[int, int]] = []

    def cleared() -> m.Command:
        counted.append((len(fills), seen.table.epoch))
        return m.Clear()

    after_load(seen, lambda: growing(), cleared)
    ((fallen, epoch),) = counted
    assert fallen == 2 and epoch > 0, "those that fell"
    assert len(fills) == 3 and seen.table.epoch > epoch, "those that rose"
