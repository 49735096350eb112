"""Which operations are picked, and what a person is told when there are none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.kernels.cpu import library
from ebbtide.kernels.cpu.library import ISAS, best_isa
from ebbtide.kernels.dispatch import IsaChoice, pick


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(library, "LIBRARY_PATH", tmp_path / "missing.so")
    library.library.cache_clear()
    yield
    library.library.cache_clear()


def test_auto_is_the_best_of_this_machine() -> None:
    ops = pick("auto", 2)
    assert (ops.name, ops.threads) == (best_isa(), 2)


@pytest.mark.parametrize("isa", ["portable", "reference"])
def test_what_runs_everywhere(isa: IsaChoice) -> None:
    assert pick(isa, 1).name == isa


def test_better_than_the_machine_is_refused_by_name() -> None:
    missing = [isa for isa in ISAS if ISAS.index(isa) > ISAS.index(best_isa())]
    for isa in missing:
        with pytest.raises(ValueError, match=f"'{isa}' cannot run here; the best is '{best_isa()}'"):
            pick(isa, 1)  # type: ignore[arg-type]


def test_threads_must_be_positive() -> None:
    with pytest.raises(ValueError, match="threads is 0"):
        pick("auto", 0)


@pytest.mark.usefixtures("no_library")
def test_without_the_library_auto_falls_back_and_a_name_is_refused() -> None:
    assert pick("auto", 1).name == "reference"
    with pytest.raises(ValueError, match="cannot be loaded"):
        pick("avx2", 1)
