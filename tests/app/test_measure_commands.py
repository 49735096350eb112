"""`bench`, `eval`, `show`, `doctor`: promised fields, and arithmetic that can be checked by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ebbtide.app import machine
from ebbtide.app.bench_text import words_of
from ebbtide.app.commands.bench import spread
from ebbtide.app.commands.doctor import card_rows, kernels_words, machine_lines, outlook
from ebbtide.app.machine import describe_machine, existing_parent
from ebbtide.app.model_facts import ModelFacts
from ebbtide.engine import threads
from ebbtide.engine.device.describe import CardFacts
from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import Budget
from ebbtide.engine.memory.observed import Observed
from ebbtide.engine.memory.plan import Needs, make_plan
from ebbtide.engine.processors import Processors
from ebbtide.engine.sizes import GIB, MIB
from ebbtide.kernels.dispatch import chosen_isa
from tests.app.test_run_command import MEMORY_FIELDS
from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script


def test_bench_json(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.app.stream_rate.BUFFER_BYTES", 1 << 20)
    result = json.loads(cli("bench", model, "--prefill", "16,64", "--runs", "2", "--json").out)
    fields = [
        "model",
        "machine",
        "width",
        "decode_tok_s",
        "prefill_tok_s",
        "first_token_s",
        "memory",
        "notes",
    ]
    assert list(result) == fields and result["notes"] == []
    assert set(result["machine"]) == {"cpu", "isa", "threads", "stream_bytes_per_s", "gpu"}
    assert result["decode_tok_s"] == {"median": 50.0, "min": 50.0, "max": 50.0, "runs": 2}
    assert list(result["prefill_tok_s"]) == ["16", "64"]
    for spread_of in (result["first_token_s"], *result["prefill_tok_s"].values()):
        assert set(spread_of) == {"median", "min", "max", "runs"}
    assert list(result["memory"]) == MEMORY_FIELDS
    assert result["machine"]["stream_bytes_per_s"] > 0


def asked(record: Path) -> list[str]:
    """What each request measured, in order: the prompt's kind by its words and the answer's limit."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    return [
        f"{len(line['text'].split())} words, {line['max_tokens']}"
        for line in lines
        if line["type"] == "generate"
    ]


def test_bench_goes_in_rounds_of_one_of_each(cli: Cli, model: str, tmp_path: Path) -> None:
    """What the machine does meanwhile falls on all measures alike; the first round warms each of them up."""
    record = tmp_path / "commands"
    arguments = ["--prefill", "256,512,512", "--decode", "9", "--runs", "2", "--json"]
    result = json.loads(cli("bench", model, *arguments, script=Script(record=str(record))).out)
    requests = asked(record)
    first = requests[:3]
    assert len(set(first)) == 3 and first[0].endswith(", 9") and requests == first * 3
    assert list(result["prefill_tok_s"]) == ["256", "512"] and result["decode_tok_s"]["runs"] == 2
    texts = [json.loads(line).get("text") for line in record.read_text().splitlines()]
    starts = [text[:12] for text in texts if text]
    assert len(set(starts)) == len(starts), "a prompt began like another one"


def test_bench_decodes_behind_the_end_of_an_answer(cli: Cli, model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    script = Script(answer="one two", record=str(record))
    assert cli("bench", model, "--prefill", "16", "--decode", "9", "--runs", "1", script=script).code == 0
    requests = [json.loads(line) for line in record.read_text().splitlines()]
    assert {request["ignore_end"] for request in requests if request["type"] == "generate"} == {True}


def test_the_end_of_other_answers_is_heeded(cli: Cli, model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    cli("run", model, "-p", "hi", script=Script(record=str(record)))
    (request,) = [
        line for line in map(json.loads, record.read_text().splitlines()) if line["type"] == "generate"
    ]
    assert request["ignore_end"] is False


def test_a_measured_answer_that_is_cut_is_no_measurement(cli: Cli, model: str) -> None:
    script = Script(answer="one two", finish_reason="context")
    done = cli("bench", model, "--prefill", "16", "--decode", "9", "--runs", "1", script=script)
    assert done.code == 5 and "after 2 of 9 tokens" in done.err and "--decode" in done.err


def test_bench_refuses_what_does_not_fit_the_context(cli: Cli, model: str) -> None:
    assert cli("bench", model, "--ctx", "64", "--prefill", "128").code == 5
    done = cli("bench", model, "--ctx", "1024", "--prefill", "128,512,2048")
    assert done.code == 5 and "2,048 prompt tokens and 64 answer tokens" in done.err
    assert "a context of 1,024." in done.err
    assert cli("bench", model, "--ctx", "64").code == 5, "the answer does not fit either"


def test_one_token_is_no_speed(cli: Cli, model: str) -> None:
    """The first token of an answer is the prompt's: decoding is measured from it on."""
    done = cli("bench", model, "--decode", "1")
    assert done.code == 2 and "--decode" in done.err


@pytest.mark.parametrize(
    ("ctx", "lengths", "words"),
    [
        (4096, ["128", "512", "2048"], ""),
        (1024, ["128", "512"], "not measured with prompts of 2,048 tokens: the context holds 1,024"),
        (540, ["128"], "512 and 2,048 tokens"),
        (128, [], "128, 512 and 2,048 tokens"),
    ],
)
def test_lengths_that_nobody_gave_are_those_that_fit(
    cli: Cli, model: str, ctx: int, lengths: list[str], words: str
) -> None:
    done = cli("bench", model, "--ctx", str(ctx), "--runs", "1", "--json")
    assert list(json.loads(done.out)["prefill_tok_s"]) == lengths
    assert words in done.err and (words != "") == ("prompts of" in done.err)


def test_bench_tells_of_runs_that_differ(cli: Cli, model: str) -> None:
    """Decode is measured by the third and the fifth request, prefill by the fourth and the sixth."""
    arguments, script = ["bench", model, "--prefill", "16", "--runs", "2"], Script(slows_down=True)
    (note,) = json.loads(cli(*arguments, "--json", script=script).out)["notes"]
    assert note == "Runs of decode differ by up to 1.7 times: its figures are uncertain."
    assert cli(*arguments, script=script).out.endswith(f"\n{note}\n")
    assert "differ" not in cli(*arguments).out


def test_bench_tells_people_memory_too(cli: Cli, model: str) -> None:
    out = cli("bench", model, "--prefill", "16", "--runs", "1").out
    assert "peak memory" in out and "310 MiB" in out
    assert "280 MiB of a budget of 300 MiB" in out


@pytest.mark.parametrize(("width", "told"), [(None, 8), (1, 1), (4, 4), (8, 8)])
def test_bench_at_a_width_of_all_experts(
    cli: Cli, model: str, tmp_path: Path, width: int | None, told: int
) -> None:
    record = tmp_path / "commands"
    flags = [] if width is None else ["--width", str(width)]
    arguments = ["bench", model, *flags, "--prefill", "16", "--runs", "1"]
    result = json.loads(cli(*arguments, "--json", script=Script(record=str(record))).out)
    (load,) = [line for line in map(json.loads, record.read_text().splitlines()) if line["type"] == "load"]
    assert load["width"] == (width or 0) and result["width"] == told
    words = "8 of 8 planes" if told == 8 else f"{told} of 8 planes, not exact"
    assert words in cli(*arguments).out


def test_a_model_without_experts_has_no_width(cli: Cli, model: str) -> None:
    script = Script(planes=0)
    arguments = ["bench", model, "--prefill", "16", "--runs", "1"]
    assert json.loads(cli(*arguments, "--json", script=script).out)["width"] is None
    assert "planes" not in cli(*arguments, script=script).out


@pytest.mark.parametrize("width", ["0", "9", "-1", "4.5", "four", ""])
def test_a_width_that_is_none_is_a_usage_error(cli: Cli, model: str, width: str) -> None:
    result = cli("bench", model, "--width", width)
    assert result.code == 2 and "--width" in result.err and result.err.count("\n") == 2


def test_bench_says_how_far_it_is(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []

    def update(self: object, stage: str, done: int, total: int) -> None:
        told.append((stage, done, total))

    monkeypatch.setattr("ebbtide.app.console.ProgressPrinter.update", update)
    assert cli("bench", model, "--prefill", "16,64", "--runs", "2").code == 0
    assert [*dict.fromkeys(told)] == [("measuring", done, 9) for done in range(10)]


def test_bench_prompts_differ_from_their_first_word_on() -> None:
    prompts = {words_of(1, variant) for variant in range(20)}
    assert len(prompts) > 10
    assert words_of(50, 3) == words_of(50, 3) and len(words_of(50, 3).split()) == 50


def test_spread() -> None:
    assert spread([3.0, 1.0, 2.0]) == {"median": 2.0, "min": 1.0, "max": 3.0, "runs": 3}


def facts(**changes: object) -> ModelFacts:
    values: dict[str, object] = {
        field: 0 for field in ModelFacts.__dataclass_fields__ if field not in ("type_bytes", "float_error_db")
    }
    values |= {"name": "m", "path": "/m", "architecture": "llama", "packed": False}
    values |= {"type_bytes": {}, "float_error_db": {}}
    return ModelFacts(**{**values, **changes})  # type: ignore[arg-type]


def test_doctor_judges_a_file(tmp_path: Path) -> None:
    here = describe_machine(tmp_path)
    assert 0 <= here.usable_bytes <= here.memory_bytes
    big = 2 * here.memory_bytes
    cases = [
        (facts(size_bytes=1000), "fits whole"),
        (facts(size_bytes=big), "dense model"),
        (facts(size_bytes=big, experts=8, dense_bytes=big), "Not even"),
        (facts(size_bytes=big, experts=8, dense_bytes=10, expert_bytes=big), "of the experts fit"),
    ]
    for file, words in cases:
        assert words in " ".join(outlook(here, file))


def test_doctor_and_its_json(cli: Cli) -> None:
    assert "direct reads" in cli("doctor").out
    described = json.loads(cli("doctor", "--json").out)["machine"]
    assert described["threads"] >= 1 and described["memory_bytes"] > 0
    assert 1 <= described["default_threads"] <= described["threads"]


def test_doctor_says_how_the_number_of_threads_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def row() -> str:
        return next(line for line in machine_lines(describe_machine(tmp_path, tmp_path)) if "usable" in line)

    eight = Processors(allowed=16, quota=None, cores=8, fast_cores=8)
    monkeypatch.setattr(machine, "find_processors", lambda: eight)
    monkeypatch.setattr(threads, "find_processors", lambda: eight)
    assert "16 threads usable; 8 compute by default (counted until a load measures it)" in row()
    assert threads.default_threads("auto", tmp_path, lambda isa, here: 6) == 6
    assert "16 threads usable; 6 compute by default (measured)" in row()
    monkeypatch.setattr(machine, "find_processors", lambda: eight._replace(quota=2))
    assert "2 threads usable; 2 compute by default (counted)" in row()


def test_doctor_names_the_kernels_as_bench_does(cli: Cli, tmp_path: Path) -> None:
    here = describe_machine(tmp_path)
    assert here.isa == chosen_isa("auto") and here.isa not in here.other_isas
    assert all(chosen_isa(other) == other for other in here.other_isas)  # type: ignore[arg-type]
    row = next(line for line in cli("doctor").out.splitlines() if line.startswith("kernels"))
    assert row.split()[1].rstrip(",:") == here.isa
    assert "as none are compiled" in kernels_words(replace(here, kernels=None, isa="reference"))
    assert "cannot be loaded" in kernels_words(replace(here, kernels="_k.so", isa="reference"))


def test_doctor_and_a_refusal_name_the_same_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    total, available = 24 * GIB, 22 * GIB
    seen = Observed(available_bytes=available, total_bytes=total)
    monkeypatch.setattr(machine, "observe", lambda: seen)
    here = describe_machine(tmp_path)
    assert "About 20.5 GiB can be used now" in outlook(here, facts(size_bytes=1000))[0]
    needs = Needs(
        static_bytes=MIB, transient_bytes=MIB, page_bytes=1 << 16, layers=2, tokens_per_page=64, context=512
    )
    room = seen.budget_room_bytes
    assert room is not None
    with pytest.raises(FitError) as refused:
        make_plan(needs, Budget("bytes", 900e9), ctx=0, available_bytes=room, whole_bytes=total)
    assert "838 GiB" in str(refused.value) and "--budget 20.5GiB or less" in refused.value.hint


def test_doctor_lists_cards(tmp_path: Path) -> None:
    here = replace(describe_machine(tmp_path), gpu_driver="560.1", cuda=None, cards=[], cards_problem="")
    assert card_rows(replace(here, gpu_driver=None)) == {"gpu": "none with a driver"}
    assert "shows no card" in card_rows(here)["gpu"]
    assert card_rows(replace(here, cards_problem="cuInit: unknown error"))["gpu"] == "cuInit: unknown error"
    card = CardFacts(0, "RTX 3060", "0f0e0d0c-aaaa", "8.6", 12 << 30, 9 << 30, False, "")
    old = replace(card, index=1, name="GTX 1080", free_bytes=None, problem="too old")
    rows = card_rows(replace(here, cuda="12.6", cards=[card, old]))
    assert rows["gpu driver"] == "560.1, runs CUDA 12.6"
    assert all(part in rows["cuda:0"] for part in ("RTX 3060", "12.0 GiB", "9.0 GiB free", "8.6", "0f0e0d0c"))
    assert "free memory unknown" in rows["cuda:1"] and rows["cuda:1"].endswith("not used: too old")
    assert json.dumps(replace(here, cards=[card]).as_object()["cards"])


@pytest.mark.parametrize("command", ["show", "doctor", "pack"])
def test_what_is_no_model_is_3(cli: Cli, model: str, command: str) -> None:
    assert cli(command, model).code == 3


@pytest.mark.parametrize("command", ["show", "doctor", "pack"])
def test_a_starter_that_is_not_there_is_3(cli: Cli, command: str) -> None:
    result = cli(command, "starter")
    assert result.code == 3 and "pull starter" in result.err


def test_doctor_asks_the_engine_for_the_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "smallest_limit", lambda: 3 << 30)
    assert describe_machine(tmp_path).memory_limit_bytes == 3 << 30


def test_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert existing_parent(tmp_path / "a" / "b") == tmp_path
