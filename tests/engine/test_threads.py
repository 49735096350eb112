"""The default thread count: when it is measured, and how it is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from ebbtide.engine import messages as m
from ebbtide.engine import threads
from ebbtide.engine.processors import Processors
from ebbtide.engine.threads import FILE_NAME, DefaultThreads, default_threads, known_threads, usable_threads
from ebbtide.kernels.cpu import library
from tests.helpers.in_process import load, of, run
from tests.helpers.tiny_models import write_tiny

EIGHT = Processors(allowed=16, quota=None, cores=8, fast_cores=8)


class Stopwatch:
    """Measures nothing; counts how often it is asked."""

    def __init__(self, answer: int | None = 6) -> None:
        self.answer, self.asked = answer, list[tuple[str, Processors]]()

    def __call__(self, isa: str, here: Processors) -> int | None:
        self.asked.append((isa, here))
        return self.answer


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[Processors]:
    """The machine, which a test may change."""
    machines = [EIGHT]
    monkeypatch.setattr(threads, "find_processors", lambda: machines[-1])
    return machines


def test_measured_once_and_kept(here: list[Processors], stopwatch: Stopwatch, tmp_path: Path) -> None:
    cache = tmp_path / "not there yet" / "cache"
    assert known_threads("portable", cache) == DefaultThreads(8, measured=False, to_measure=True)
    assert [default_threads("portable", cache, stopwatch) for _ in range(3)] == [6, 6, 6]
    assert stopwatch.asked == [("portable", EIGHT)]
    assert known_threads("portable", cache) == DefaultThreads(6, measured=True, to_measure=False)
    assert [file.name for file in cache.iterdir()] == [FILE_NAME], "nothing half-written is left"


@pytest.mark.parametrize(
    "other",
    [
        EIGHT._replace(allowed=8),
        EIGHT._replace(quota=7),
        EIGHT._replace(cores=16),
        EIGHT._replace(fast_cores=4),
    ],
)
def test_each_machine_and_limit_has_its_own(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, other: Processors
) -> None:
    assert default_threads("portable", tmp_path, stopwatch) == 6
    here.append(other)
    stopwatch.answer = 4
    assert default_threads("portable", tmp_path, stopwatch) == 4
    here.append(EIGHT)
    assert default_threads("portable", tmp_path, stopwatch) == 6, "the first one is still kept"
    assert len(stopwatch.asked) == 2


def test_so_has_each_processor_instruction_set_and_version(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default_threads("portable", tmp_path, stopwatch)
    monkeypatch.setattr(threads, "cpu_name", lambda: "Another 9000")
    default_threads("portable", tmp_path, stopwatch)
    monkeypatch.setattr(threads, "_VERSION", 99)
    default_threads("portable", tmp_path, stopwatch)
    monkeypatch.setattr(threads, "chosen_isa", lambda isa: "avx9000")
    default_threads("auto", tmp_path, stopwatch)
    assert [isa for isa, _ in stopwatch.asked] == ["portable"] * 3 + ["avx9000"]


FEW = [Processors(1, None, 1, 1), Processors(2, None, 2, 2), Processors(64, 2, 32, 32)]


@pytest.mark.parametrize("few", FEW)
def test_one_or_two_are_not_measured(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, few: Processors
) -> None:
    here.append(few)
    assert default_threads("portable", tmp_path, stopwatch) == few.usable
    assert not stopwatch.asked and not list(tmp_path.iterdir())


def test_two_threads_of_one_core_count_as_one(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path
) -> None:
    here.append(Processors(2, None, 1, 1))
    assert default_threads("portable", tmp_path, stopwatch) == 1


def test_nowhere_to_keep_it_and_nothing_to_measure(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path
) -> None:
    assert default_threads("portable", None, stopwatch) == 8
    assert default_threads("reference", tmp_path, stopwatch) == 8
    here.append(Processors(64, 6, 32, 32))
    assert default_threads("portable", None, stopwatch) == 6
    assert not stopwatch.asked


def test_what_could_not_be_measured_is_counted_and_tried_again(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path
) -> None:
    stopwatch.answer = None
    assert default_threads("portable", tmp_path, stopwatch) == 8
    stopwatch.answer = 4
    assert default_threads("portable", tmp_path, stopwatch) == 4


@pytest.mark.parametrize("text", ["", "{", "[6]", "6", "null", '{"x": 6}', "\x00", "[" * 100_000])
def test_a_file_that_cannot_be_understood_is_written_anew(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    assert [default_threads("portable", tmp_path, stopwatch) for _ in range(2)] == [6, 6]
    assert len(stopwatch.asked) == 1


@pytest.mark.parametrize("count", [0, -1, 17, 6.0, "6", None, True, [6]])
def test_a_count_that_cannot_be_is_measured_again(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, count: Any
) -> None:
    default_threads("portable", tmp_path, stopwatch)
    file = tmp_path / FILE_NAME
    (machine,) = json.loads(file.read_text())
    file.write_text(json.dumps({machine: count}))
    assert [default_threads("portable", tmp_path, stopwatch) for _ in range(2)] == [6, 6]
    assert len(stopwatch.asked) == 2
    assert json.loads(file.read_text()) == {machine: 6}


@pytest.mark.parametrize("obstacle", ["a file in place of the folder", "a folder in place of the file"])
def test_what_cannot_be_kept_is_no_fault(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, obstacle: str
) -> None:
    cache = tmp_path / "cache"
    if obstacle.startswith("a file"):
        cache.write_text("")
    else:
        (cache / FILE_NAME).mkdir(parents=True)
    assert [default_threads("portable", cache, stopwatch) for _ in range(2)] == [6, 6]
    assert len(stopwatch.asked) == 2
    assert not list(tmp_path.rglob("*.part"))


def test_a_cache_that_nobody_may_write_to(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "write_text", refuse)
    assert default_threads("portable", tmp_path, stopwatch) == 6


def test_unknown_instruction_sets_are_refused_first(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="'avx9000' cannot run here"):
        default_threads("avx9000", tmp_path, stopwatch)  # type: ignore[arg-type]
    assert not stopwatch.asked


def test_without_the_library_nothing_is_measured(
    here: list[Processors], stopwatch: Stopwatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "LIBRARY_PATH", tmp_path / "missing.so")
    library.library.cache_clear()
    try:
        assert default_threads("auto", tmp_path, stopwatch) == 8
    finally:
        library.library.cache_clear()
    assert not stopwatch.asked


def test_a_load_without_a_number_takes_it(
    here: list[Processors], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_measure", Stopwatch(3))
    model = write_tiny(tmp_path / "m.gguf", "llama")
    loads = [load(model, threads=count, cache_dir=str(tmp_path)) for count in (0, 2)]
    assert [of(run(command), m.Loaded)[0].threads for command in loads] == [3, 2]
    assert known_threads("auto", tmp_path).measured


def test_usable_follows_the_quota(here: list[Processors]) -> None:
    assert usable_threads() == 16
    here.append(EIGHT._replace(quota=5))
    assert usable_threads() == 5
