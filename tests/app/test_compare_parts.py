"""Statistics, words and the order of a race, without a race."""

from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.compare.contenders import LlamaCpp
from ebbtide.app.compare.llama_process import LlamaFailed
from ebbtide.app.compare.llama_worker import features_of
from ebbtide.app.compare.race import Race
from ebbtide.app.compare.rows import Row, figure
from ebbtide.app.compare.sample import DECODE, Prompt, Sample
from ebbtide.app.compare.statistics import has_interval, median_interval, ratio_of
from ebbtide.app.compare.tables import chart, table_lines
from ebbtide.app.slash.compare_command import race_command
from ebbtide.app.steadiness import steadiness_notes
from ebbtide.engine.messages import Load
from tests.helpers.chat_host import ask, chat_app, press, ready, shown
from tests.helpers.fake_engine import Script

POSITIVE = st.lists(st.floats(0.01, 1000), min_size=1, max_size=9)


@given(POSITIVE)
def test_the_interval_lies_within_the_values_and_holds_their_median(values: list[float]) -> None:
    low, high = median_interval(values)
    assert min(values) <= low <= median(values) <= high <= max(values)
    assert has_interval(len(values)) or (low, high) == (min(values), max(values))


def test_the_interval_is_of_values_in_the_middle() -> None:
    """Of nine values the bootstrap's is from the second to the second last, as that of the sign test is."""
    assert median_interval(range(1, 10)) == (2, 8)
    assert median_interval([7, 1, 9, 3]) == (1, 9)
    assert [has_interval(count) for count in (1, 5, 6, 9)] == [False, False, True, True]


def test_ratios_are_paired() -> None:
    """Both slow down in the second pair: the ratio does not."""
    ratio = ratio_of([100, 50, 100], [50, 25, 50])
    assert ratio is not None and ratio == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(("ours", "theirs"), [([1.0], []), ([0.0, 1.0], [1.0, 1.0]), ([1.0], [0.0])])
def test_no_ratio_without_figures(ours: list[float], theirs: list[float]) -> None:
    assert ratio_of(ours, theirs) is None


def test_the_note_is_of_the_measure_that_differs_most() -> None:
    """Runs without a figure tell nothing."""
    measures = {"a": [10, 16], "b": [20, 10, 15], "c": [0, 5], "d": []}
    (note,) = steadiness_notes(measures, "llama.cpp")
    assert note == "Runs of b of llama.cpp differ by up to 2.0 times: its figures are uncertain."
    assert not [*steadiness_notes({})] and not [*steadiness_notes({"a": [10, 15], "d": []})]


@pytest.mark.parametrize(
    ("value", "words"),
    [(1234.5, "1234"), (99.96, "100.0"), (12.34, "12.3"), (1.234, "1.23"), (0.0123, "0.0123")],
)
def test_figures(value: float, words: str) -> None:
    assert figure(value) == words


class Told:
    """A contender that writes down what it is told."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name, self._log = name, log
        self._loaded = False
        self.configuration = "default"

    def ready(self) -> None:
        if not self._loaded:
            self._log.append(f"{self._name} loads")
        self._loaded = True

    def request(self, prompt: Prompt) -> Sample:
        self._log.append(f"{self._name} {prompt.measure}")
        return Sample(1, 1, 1.0, 1.0, 1.0)

    def rest(self) -> None:
        self._log.append(f"{self._name} rests")
        self._loaded = False


def log_of(runs: int, measures: Sequence[str], *, together: bool) -> list[str]:
    log: list[str] = []
    prompts = [Prompt(measure, "", 1) for measure in measures]
    race = Race(Told("a", log), Told("b", log), prompts, runs, together=together)  # type: ignore[arg-type]
    race.run(lambda *_: None)
    return log


def test_who_goes_first_alternates_after_a_warm_up_each() -> None:
    log = log_of(3, [DECODE], together=True)
    warm = ["a loads", "a decode", "a decode", "b loads", "b decode", "b decode"]
    assert log == [*warm, "b decode", "a decode", "a decode", "b decode"]


def test_one_resident_at_a_time() -> None:
    turn = ["{} loads", "{} decode", "{} decode", "{} 16", "{} rests"]
    log = log_of(2, [DECODE, "16"], together=False)
    assert log == [step.format(name) for name in "abba" for step in turn]


def test_every_request_is_progress() -> None:
    told: list[tuple[int, int]] = []
    log: list[str] = []
    prompts = [Prompt(measure, "", 1) for measure in (DECODE, "16")]
    race = Race(Told("a", log), Told("b", log), prompts, 3, together=True)  # type: ignore[arg-type]
    race.run(lambda stage, done, total: told.append((done, total)))
    assert told == [(done, 12) for done in range(13)]


def test_a_kill_by_the_limit_is_told_as_such() -> None:
    kills = iter([1, 1])
    llama = LlamaCpp("m.gguf", 1, 256, ["llama"], kills=lambda: next(kills))
    for _ in range(2):
        llama.fall_back(LlamaFailed("was killed by SIGKILL"))
    assert [failure["failure"] for failure in llama.failures] == [
        "was killed: it needed more memory than the limit",
        "was killed by SIGKILL",
    ]


@pytest.mark.parametrize(
    ("information", "features"),
    [
        ("CPU : SSE3 = 1 | AVX = 0 | REPACK = 1 | ", ["SSE3", "REPACK"]),
        ("CUDA : ARCHS = 500,610 | USE_GRAPHS = 1 | CPU : AVX2 = 1 | ", ["USE_GRAPHS", "AVX2"]),
        ("", []),
    ],
)
def test_what_llama_cpp_was_built_with(information: str, features: list[str]) -> None:
    """The name of a backend is no part of a feature's."""
    assert features_of(information) == features


def test_the_command_for_another_terminal() -> None:
    assert race_command(Load("/m.gguf")) == "ebbtide compare /m.gguf"
    load = Load("/my models/m.gguf", budget="40%", threads=2, isa="avx2")
    assert race_command(load) == "ebbtide compare '/my models/m.gguf' --budget 40% --threads 2 --isa avx2"
    load = Load("/m.gguf", ctx=4224, device="cuda:1", policy="lru", prefetch=True)
    assert race_command(load) == "ebbtide compare /m.gguf --ctx 4224 --device cuda:1 --policy lru --prefetch"


@pytest.mark.parametrize("by_key", [False, True])
async def test_the_chat_tells_the_command(by_key: bool) -> None:
    async with chat_app(Script()).run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        if by_key:
            press(pilot, "f3")
        else:
            await ask(pilot, "/compare")
        await shown(pilot, "ebbtide compare /models/tiny.gguf")


ROWS = [
    Row("", "ebbtide", "llama.cpp", "ratio (95 % interval)"),
    Row(
        "decode",
        "103 tok/s (98.1 to 108)",
        "51.3 tok/s (1.11 to 52.7)",
        "3.35x (1.53 to 5.17)",
        (1, 2),
        "tok/s",
    ),
    Row("first token of 32", "0.0934 s (0.0905 to 0.116)", "-", "-", (1, None), "s"),
    Row("peak memory", "542 MiB", "1.2 GiB", ""),
]


@pytest.mark.parametrize("columns", [40, 50, 64, 80, 100, 120])
def test_a_table_fits_its_terminal(columns: int) -> None:
    lines = table_lines(ROWS, columns) + chart(ROWS[1:], "#", columns)
    assert max(map(len, lines)) <= columns
    words = " ".join(" ".join(lines).split())
    assert all(
        figure in words for figure in ("103 tok/s", "1.11 to 52.7", "3.35x", "1.53 to 5.17", "1.2 GiB")
    )


def test_a_file_has_a_row_a_measure() -> None:
    head, decode, *_ = table_lines(ROWS, None)
    assert "ratio (" in head and "51.3 tok/s (1.11 to 52.7)  3.35x (1.53 to 5.17)" in decode


def test_at_80_columns_brackets_are_below_what_they_belong_to() -> None:
    lines = table_lines(ROWS, 80)
    decode = next(n for n, line in enumerate(lines) if line.startswith("decode"))
    assert lines[decode].index("3.35x") == lines[decode + 1].index("(1.53 to 5.17)")
    assert lines[decode].index("103 tok/s") == lines[decode + 1].index("(98.1 to 108)")
