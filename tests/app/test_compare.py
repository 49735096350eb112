"""`ebbtide compare` with the scripted engine and a scripted llama.cpp: 50 and 25 tok/s, 200 and 100."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ebbtide.app.commands import compare as command
from ebbtide.app.compare import comparison, contenders, limits, llama_process
from ebbtide.app.memory_cgroup import LimitRefused
from tests.app.test_run_command import MEMORY_FIELDS
from tests.helpers import fake_compare, fake_llama
from tests.helpers.app_types import Cli, Result
from tests.helpers.fake_engine import Script, command_line
from tests.helpers.waiting import PATIENCE_S, wait_for_end, wait_until

ROOT = Path(__file__).parents[2]
Race = Callable[..., Result]
MEASURES = ("--prefill", "16,64", "--decode", "8", "--runs", "3")


@pytest.fixture
def race(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> Race:
    """Runs `compare` against a llama.cpp that behaves as it is told."""
    monkeypatch.setattr("ebbtide.app.stream_rate.BUFFER_BYTES", 1 << 20)
    monkeypatch.setattr(command, "is_installed", lambda: True)

    def run(behaviour: str, *arguments: str, script: Script = Script()) -> Result:  # noqa: B008 - immutable
        fake = (sys.executable, fake_llama.__file__, *behaviour.split())
        monkeypatch.setattr(llama_process, "WORKER_COMMAND", fake)
        return cli("compare", model, *MEASURES, *arguments, script=script)

    return run


def test_json(race: Race, model: str) -> None:
    result = json.loads(race("ok", "--json", "--threads", "3").out)
    for name in ("ebbtide", "llama_cpp"):
        side = result[name]
        assert {"model", "machine", "decode_tok_s", "prefill_tok_s", "first_token_s", "memory"} <= set(side)
        assert side["failures"] == [] and side["configuration"]["name"]
        assert list(side["prefill_tok_s"]) == ["16", "64"]
        assert set(side["decode_tok_s"]) == {"median", "min", "max", "runs"}
    assert result["ebbtide"]["decode_tok_s"] == {"median": 50.0, "min": 50.0, "max": 50.0, "runs": 3}
    assert result["llama_cpp"]["decode_tok_s"]["median"] == pytest.approx(25.0)
    assert result["llama_cpp"]["memory"]["process_peak_bytes"] == 5 << 20
    assert result["llama_cpp"]["configuration"]["name"] == "default"
    assert result["decode_ratio"] == pytest.approx(2.0)
    assert result["prefill_ratio"] == pytest.approx({"16": 2.0, "64": 2.0})
    assert result["first_token_ratio"] == pytest.approx(0.25) and result["first_token_prompt"] == 64
    assert result["decode_ratio_interval"] == pytest.approx([2.0, 2.0])
    assert result["memory_limit_bytes"] is None
    assert result["command"].startswith(f"ebbtide compare {model} --runs 3 --prefill 16,64 --decode 8")
    assert "--threads 3" in result["command"]


@pytest.mark.parametrize("behaviour", ["ok", "crash"])
def test_both_sides_have_all_fields_of_a_bench(race: Race, model: str, behaviour: str) -> None:
    """What llama.cpp does not say of its memory is null, so that a reader needs no second case."""
    result = json.loads(race(behaviour, "--json").out)
    assert {"decode_ratio", "prefill_ratio", "first_token_ratio", "ebbtide", "llama_cpp"} <= set(result)
    for name in ("ebbtide", "llama_cpp"):
        side = result[name]
        assert {"decode_tok_s", "prefill_tok_s", "first_token_s", "configuration", "failures"} <= set(side)
        assert side["model"] == Path(model).name
        assert set(side["machine"]) == {"cpu", "isa", "threads", "stream_bytes_per_s", "gpu"}
        assert list(side["memory"]) == MEMORY_FIELDS
        if name == "ebbtide" or behaviour == "ok":
            spreads = [side["decode_tok_s"], side["first_token_s"], *side["prefill_tok_s"].values()]
            assert all(set(spread) == {"median", "min", "max", "runs"} for spread in spreads)


def test_the_table_and_the_chart(race: Race) -> None:
    out = race("ok").out
    assert "2.00x (2.00 to 2.00)" in out and "0.25x" in out
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert "50.0 tok/s" in rows["decode"] and "25.0 tok/s" in rows["decode"]
    bars = [line.split() for line in out.splitlines() if line.startswith(("  ebbtide", "  llama.cpp"))]
    assert len(bars) == 8 and len(bars[0][1]) == 2 * len(bars[1][1])
    assert "\x1b" not in out


def test_markdown(race: Race) -> None:
    lines = race("ok", "--markdown").out.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1 and len(table) == 7
    assert lines[-1].startswith("    ebbtide compare ")


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("crash", "SIGSEGV"),
        ("abort", "GGML_ASSERT"),
        ("refuse", "unknown architecture"),
        ("mumble", "unreadable"),
        ("hang", "did not answer"),
    ],
)
def test_a_llama_that_never_works_leaves_our_figures(
    race: Race, behaviour: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = contenders.Patience(load_s=0.3 if behaviour == "hang" else 60)
    monkeypatch.setattr(contenders, "PATIENCE", impatient)
    done = race(behaviour, "--json")
    result = json.loads(done.out)
    assert done.code == 0
    failures = result["llama_cpp"]["failures"]
    assert [failure["configuration"] for failure in failures] == [
        "default",
        "no extra buffers, mmap",
        "no extra buffers, no mmap",
    ]
    assert all(words in failure["failure"] for failure in failures)
    assert result["ebbtide"]["decode_tok_s"]["runs"] == 3
    assert result["llama_cpp"]["decode_tok_s"] is None and result["llama_cpp"]["configuration"] is None
    assert result["decode_ratio"] is None and result["prefill_ratio"] == {"16": None, "64": None}
    assert result["decode_ratio_interval"] is None


def test_tables_say_that_llama_never_worked(race: Race) -> None:
    for out in (race("crash").out, race("crash", "--markdown").out):
        assert "no configuration worked" in out and out.count("SIGSEGV") == 3


def test_the_next_configuration_is_tried(race: Race) -> None:
    result = json.loads(race("crash-default", "--json").out)
    side = result["llama_cpp"]
    assert side["configuration"]["name"] == "no extra buffers, mmap"
    assert side["configuration"]["parameters"] == {"use_extra_bufts": False, "load_mode": "MMAP"}
    assert [failure["configuration"] for failure in side["failures"]] == ["default"]
    assert result["decode_ratio"] == pytest.approx(2.0)


def test_a_crash_in_the_middle_starts_the_race_again(race: Race, tmp_path: Path) -> None:
    result = json.loads(race(f"crash-late {tmp_path / 'crashed'}", "--json").out)
    side = result["llama_cpp"]
    assert len(side["failures"]) == 1 and side["configuration"]["name"] == "no extra buffers, mmap"
    assert side["decode_tok_s"]["runs"] == result["ebbtide"]["decode_tok_s"]["runs"] == 3


def test_models_that_do_not_fit_together_take_turns(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "RESIDENT_SHARE", 1e18)
    result = json.loads(race("ok", "--json").out)
    assert result["decode_ratio"] == pytest.approx(2.0)
    assert any("loaded anew" in line for line in result["notes"])


def test_a_limit_that_cannot_be_set_is_told_and_left_out(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise LimitRefused("this system has no memory cgroups")

    monkeypatch.setattr(limits, "MemoryCgroup", refuse)
    done = race("ok", "--json", "--memory-limit", "2GB")
    result = json.loads(done.out)
    assert result["memory_limit_bytes"] is None
    assert "this system has no memory cgroups" in done.err
    assert any("no memory cgroups" in line for line in result["notes"])


class NoLimit:
    """A cgroup in name only, which may start another engine instead."""

    engine: list[str] | None = None
    killed = 0

    def __init__(self, name: str, limit_bytes: int) -> None:
        self._name = name

    def __enter__(self) -> "NoLimit":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wrap(self, command: list[str]) -> list[str]:
        ours = self._name.endswith("-ebbtide")
        return self.engine if ours and self.engine is not None else list(command)

    def kills(self) -> int:
        return self.killed


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Limits that limit nothing; `inside` is the engine that runs in one."""

    def set_up(inside: Script | None = None, kills: int = 0) -> None:
        monkeypatch.setattr(limits, "MemoryCgroup", NoLimit)
        monkeypatch.setattr(NoLimit, "engine", command_line(inside) if inside else None)
        monkeypatch.setattr(NoLimit, "killed", kills)
        for module in (limits, comparison):
            monkeypatch.setattr(module, "drop_caches", lambda: True)

    return set_up


ROOMY = Script(smallest_budget_bytes=(148 << 20) - 5)
NO_FIT = Script(load_failure=["A budget of 1 MiB is too small.", "Give --budget 148MiB or more.", "4"])
KILLED = Script(die_at_start=9)


@pytest.mark.parametrize(
    ("limit", "floor", "inside"),
    [
        ("10MB", 9, KILLED),
        ("112MiB", 112, NO_FIT),
        ("130MB", 123, NO_FIT),
        ("150MB", 143, KILLED),
        ("271580000B", 258, NO_FIT),
        ("272629759B", 259, KILLED),
    ],
)
def test_a_limit_that_is_too_small_names_the_smallest_that_works(
    race: Race, limited: Callable[..., None], limit: str, floor: int, inside: Script
) -> None:
    """Also where the engine dies of it before it can say so; nobody gave a budget, so none is spoken of."""
    limited(inside)
    done = race("ok", "--memory-limit", limit, script=ROOMY)
    assert done.code == 4 and done.out == ""
    what, hint = done.err.splitlines()[-2:]
    assert f"limit of {floor} MiB is too small: the smallest that works is 260 MiB (148 MiB for" in what
    assert hint == "  Give --memory-limit 260MiB or more." and "budget" not in done.err


def test_the_smallest_limit_works(race: Race, limited: Callable[..., None]) -> None:
    limited(ROOMY)
    done = race("ok", "--memory-limit", "260MiB", script=ROOMY)
    assert done.code == 0 and "memory limit 260 MiB" in done.out


def test_a_refusal_that_is_not_for_the_limit_stays(race: Race, limited: Callable[..., None]) -> None:
    limited(NO_FIT)
    done = race("ok", "--memory-limit", "300MiB", script=ROOMY)
    assert done.code == 4 and "A budget of 1 MiB is too small." in done.err


@pytest.mark.parametrize(("kills", "code"), [(1, 4), (0, 7)])
@pytest.mark.parametrize("flags", [[], ["--budget", "200MiB"]])
def test_an_engine_that_the_limit_kills_did_not_fit(
    race: Race, limited: Callable[..., None], kills: int, code: int, flags: list[str]
) -> None:
    limited(Script(die_after_tokens=3), kills)
    done = race("ok", "--memory-limit", "300MiB", *flags, script=ROOMY)
    assert done.code == code and ("more memory than the limit of 300 MiB" in done.err) == bool(kills)
    assert ("smaller --budget" in done.err) == bool(kills and flags)


def test_a_limit_larger_than_the_machine_limits_nothing(
    race: Race, limited: Callable[..., None], tmp_path: Path
) -> None:
    limited()
    record = tmp_path / "commands"
    done = race("ok", "--memory-limit", "900TB", script=Script(record=str(record)))
    assert done.code == 0 and "The limit of 818.5 TiB limits nothing: there are" in done.err
    loads = [line for line in map(json.loads, record.read_text().splitlines()) if line["type"] == "load"]
    assert [load["budget"] for load in loads] == ["auto"]


@pytest.mark.parametrize("limit", [True, False])
@pytest.mark.parametrize("read_ahead", [128 << 10, 0, None])
def test_with_a_limit_the_read_ahead_is_told(
    race: Race,
    limited: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    limit: bool,
    read_ahead: int | None,
) -> None:
    """What mmap reads for a page that is not there depends on it, and llama.cpp's speed on that."""
    limited()
    monkeypatch.setattr(comparison, "read_ahead_bytes", lambda device: read_ahead)
    flags = ["--memory-limit", "2GB"] if limit else []
    assert json.loads(race("ok", "--json", *flags).out)["read_ahead_bytes"] == read_ahead
    for out in (race("ok", *flags).out, race("ok", "--markdown", *flags).out):
        told = [line for line in out.splitlines() if "reads ahead" in line]
        assert len(told) == (limit and read_ahead is not None)
        assert all(("128 KiB" if read_ahead else " 0 B") in line and "mmap" in line for line in told)


@pytest.mark.parametrize("typed", ["600MB", "572.5 MiB", "1G"])
def test_the_limit_is_repeated_as_it_was_typed(race: Race, limited: Callable[..., None], typed: str) -> None:
    limited()
    command = json.loads(race("ok", "--json", "--memory-limit", typed).out)["command"]
    assert shlex.split(command)[-2:] == ["--memory-limit", typed]


def test_a_peak_above_the_limit_is_explained(race: Race, limited: Callable[..., None]) -> None:
    limited()
    told = "Peak memory is all that a process had resident"
    assert told in race("ok", "--memory-limit", "2GB").out and told not in race("ok").out


@pytest.mark.parametrize(("limit", "told"), [("240MiB", True), ("250MiB", False), ("2GB", False)])
def test_a_contender_that_had_more_than_its_limit_is_told(
    race: Race, limited: Callable[..., None], limit: str, told: bool
) -> None:
    """ebbtide had 310 MiB: what others hold in memory of a file is free for it, and the limit is none."""
    limited()
    notes = json.loads(race("ok", "--json", "--memory-limit", limit).out)["notes"]
    wanted = [
        note for note in notes if note.startswith("ebbtide had 310 MiB resident inside a limit of 240 MiB")
    ]
    assert (notes == wanted and len(notes) == 1) if told else notes == []


def test_without_llama_cpp_nothing_runs(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "is_installed", lambda: False)
    done = cli("compare", model)
    assert done.code == 2 and command.BASELINE in done.err and done.out == ""


def test_all_say_alike_how_llama_cpp_is_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["baseline"] == [command.BASELINE]
    install = f"-m pip install {command.BASELINE}"
    assert f"python {install}" in (ROOT / "README.md").read_text() and install in command.INSTALL_HINT


@pytest.mark.parametrize(
    "arguments",
    [
        ["--memory-limit", "much"],
        ["--memory-limit", "0B"],
        ["--memory-limit", "40%"],
        ["--prefill", "x"],
        ["--decode", "1"],
        ["--json", "--markdown"],
    ],
)
def test_bad_input_is_2(race: Race, arguments: list[str]) -> None:
    assert race("ok", *arguments).code == 2


def test_prompts_that_do_not_fit_the_context_are_5(race: Race) -> None:
    done = race("ok", "--ctx", "1024", "--prefill", "2048")
    assert done.code == 5 and "2,048 prompt tokens" in done.err and "context of 1,024" in done.err


def test_runs_that_differ_are_told_of_whom_they_are(race: Race) -> None:
    """What was seen: why is not known."""
    notes = json.loads(race("unsteady", "--json").out)["notes"]
    assert [note.split(" differ by up to ")[0] for note in notes] == ["Runs of prefill 16 of llama.cpp"]
    assert notes[0].endswith(" times: its figures are uncertain.")
    assert "differ by up to" in race("unsteady").out and "differ by" not in race("ok").out
    ours = json.loads(race("ok", "--json", script=Script(slows_down=True)).out)["notes"]
    assert [note.split(" differ by")[0] for note in ours] == ["Runs of decode of ebbtide"]


@pytest.mark.parametrize(("runs", "kind"), [(1, "least_to_most"), (5, "least_to_most"), (6, "95%")])
def test_few_pairs_have_no_interval(race: Race, runs: int, kind: str) -> None:
    result = json.loads(race("ok", "--runs", str(runs), "--json").out)
    assert result["interval_kind"] == kind and len(result["decode_ratio_interval"]) == 2
    for flags in ([], ["--markdown"]):
        out = race("ok", "--runs", str(runs), *flags).out
        assert ("ratio (least to most)" in out) == ("--runs 6 or more" in out) == (kind != "95%")
        assert ("ratio (95 % interval)" in out) == (kind == "95%")


def test_an_answer_that_the_model_would_end_goes_on(race: Race, tmp_path: Path) -> None:
    """As llama.cpp's does: both decode as many tokens as were asked for."""
    record = tmp_path / "commands"
    result = json.loads(race("ok", "--json", script=Script(answer="one two", record=str(record))).out)
    requests = [json.loads(line) for line in record.read_text().splitlines()]
    requests = [request for request in requests if request["type"] == "generate"]
    assert requests and all(request["ignore_end"] for request in requests)
    assert {request["max_tokens"] for request in requests} == {1, 8}
    assert result["notes"] == []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_both(model: str, number: int, code: int) -> None:
    """Real processes, while llama.cpp hangs."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    command = [sys.executable, fake_compare.__file__, "hang", "compare", model, *MEASURES]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        children: list[psutil.Process] = []

        def both_run() -> bool:
            children[:] = psutil.Process(process.pid).children(recursive=True)
            return len(children) == 2

        try:
            wait_until(both_run, "both contenders run")
            process.send_signal(number)
            assert process.wait(PATIENCE_S) == code
        finally:
            process.kill()
    wait_for_end(children)
