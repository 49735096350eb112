"""`ebbtide eval`: promised fields, what is asked of the engine, and what is refused before it is."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ebbtide.app.eval.finding import Finding, Task
from ebbtide.app.eval.held_out import held_out_passages
from ebbtide.engine.messages import Scored
from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script

FIELDS = ["perplexity", "agreement", "kl", "average_bits", "expert_bytes", "tokens", "arm"]
EXTRA = ["perplexity_interval", "full_perplexity", "increase", "increase_interval", "fp16_bytes"]


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text"
    path.write_text("one two three four")
    return str(path)


def commands(record: Path, kind: str) -> list[dict[str, Any]]:
    lines = map(json.loads, record.read_text().splitlines())
    return [line for line in lines if line["type"] == kind]


def test_the_model_as_it_is(cli: Cli, model: str, text: str) -> None:
    result = json.loads(cli("eval", model, "--text", text, "--json").out)
    assert list(result) == FIELDS + EXTRA
    assert result["perplexity"] == pytest.approx(math.exp(2.0)) and result["tokens"] == 4
    assert result["average_bits"] == 8.0 and result["arm"] == "paged"
    assert all(result[name] is None for name in ("agreement", "kl", *EXTRA)), "one text is no interval"
    assert "perplexity 7.3891 over 4 tokens" in cli("eval", model, "--text", text).out


def test_an_arm_is_compared_with_every_plane(cli: Cli, model: str, text: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    arguments = ["eval", model, "--text", text, "--arm", "uniform", "--bits", "5.5"]
    done = cli(*arguments, "--json", script=Script(record=str(record)))
    result = json.loads(done.out)
    assert list(result) == FIELDS + EXTRA
    assert (result["average_bits"], result["expert_bytes"], result["fp16_bytes"]) == (5.5, 50, 160)
    assert (result["agreement"], result["kl"], result["arm"]) == (0.75, 0.5, "uniform")
    assert result["full_perplexity"] == pytest.approx(math.e)
    assert result["increase"] == pytest.approx(math.e - 1)
    assert "Only an estimate" in done.err
    (wish,) = commands(record, "arm")
    assert (wish["arm"], wish["bits"]) == ("uniform", 5.5) and wish["cache_dir"]
    (score,) = commands(record, "score")
    assert score["against_full"] and score["widths"] == "BQY=", "the engine's own two blocks"
    assert not score["follow"]
    out = cli(*arguments).out
    assert "experts (uniform): 5.50 bits a weight" in out and "31.2% of 16 bits" in out
    assert "perplexity +171.83%, KL 0.5000 nats, same likeliest token 75.0%" in out


@pytest.mark.parametrize("without", ["", "sensitivity", "routing", "residual", "movement"])
def test_the_arm_that_follows_the_routing(
    cli: Cli, model: str, text: str, tmp_path: Path, without: str
) -> None:
    record = tmp_path / "commands"
    arguments = ["eval", model, "--text", text, "--arm", "paged", "--bits", "5", "--json"]
    arguments += ["--without", without] if without else []
    result = json.loads(cli(*arguments, script=Script(record=str(record))).out)
    assert (result["arm"], result["average_bits"], result["kl"]) == ("paged", 5, 0.5)
    (wish,), (score,) = commands(record, "arm"), commands(record, "score")
    assert (wish["arm"], wish["bits"], wish["without"]) == ("paged", 5, without)
    assert score["follow"] and score["against_full"]


def test_the_arm_that_chooses_token_by_token(cli: Cli, model: str, text: str, tmp_path: Path) -> None:
    """Planes read are those of the text; bytes are those that are held."""
    record = tmp_path / "commands"
    arguments = ["eval", model, "--text", text, "--arm", "dp", "--bits", "5"]
    result = json.loads(cli(*arguments, "--json", script=Script(record=str(record))).out)
    assert list(result) == FIELDS + EXTRA
    assert (result["arm"], result["average_bits"], result["expert_bytes"]) == ("dp", 5.25, 50)
    (wish,), (score,) = commands(record, "arm"), commands(record, "score")
    assert (wish["arm"], wish["bits"], wish.get("budget", "")) == ("dp", 5, "") and score["follow"]
    out = cli(*arguments).out
    assert "experts (dp): 5.25 bits a weight read for a token; held are" in out


@pytest.mark.parametrize("arm", ["uniform", "static", "dp", "paged"])
def test_a_budget_in_place_of_bits(cli: Cli, model: str, text: str, tmp_path: Path, arm: str) -> None:
    """It is the arm's; the model is loaded as without it, for it has to hold every plane."""
    record = tmp_path / "commands"
    arguments = ["eval", model, "--text", text, "--json", "--arm", arm, "--budget", "40%"]
    result = json.loads(cli(*arguments, script=Script(record=str(record))).out)
    assert result["arm"] == arm and result["kl"] == 0.5
    (load,), (wish,) = commands(record, "load"), commands(record, "arm")
    assert (wish["budget"], wish["bits"], load["budget"]) == ("40%", 0, "auto")


@pytest.mark.parametrize(
    "arguments", [["--budget", "40%"], ["--arm", "fp16", "--budget", "40%"]], ids=["as it is", "fp16"]
)
def test_without_an_arm_of_a_size_a_budget_is_the_models(
    cli: Cli, model: str, text: str, tmp_path: Path, arguments: list[str]
) -> None:
    record = tmp_path / "commands"
    assert cli("eval", model, "--text", text, *arguments, script=Script(record=str(record))).code == 0
    (load,) = commands(record, "load")
    assert load["budget"] == "40%" and all(not wish["budget"] for wish in commands(record, "arm"))


@pytest.mark.parametrize("arguments", [["--bits", "5"], ["--budget", "40%"]], ids=["bits", "budget"])
def test_the_environments_budget_is_the_models(
    cli: Cli, model: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setenv("EBBTIDE_BUDGET", "80%")
    record = tmp_path / "commands"
    command = ["eval", model, "--text", text, "--arm", "uniform", *arguments]
    assert cli(*command, script=Script(record=str(record))).code == 0
    (load,) = commands(record, "load")
    assert load["budget"] == "80%"


def test_sixteen_bits_need_no_number(cli: Cli, model: str, text: str) -> None:
    result = json.loads(cli("eval", model, "--text", text, "--arm", "fp16", "--json").out)
    assert result["average_bits"] == 16.0 and result["arm"] == "fp16"


def test_without_a_text_there_is_one(cli: Cli, model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    arguments = ["eval", model, "--tokens", "3000", "--json"]
    result = json.loads(cli(*arguments, script=Script(record=str(record))).out)
    assert result["tokens"] == 3000
    low, high = result["perplexity_interval"]
    assert low == high == result["perplexity"], "the fake's losses are all alike"
    texts = [line["text"] for line in commands(record, "score")]
    assert texts == held_out_passages()[: len(texts)] and len(texts) > 4
    assert result == json.loads(cli(*arguments).out)


def test_passages_may_be_longer(cli: Cli, model: str, tmp_path: Path) -> None:
    record = tmp_path / "commands"
    result = cli("eval", model, "--tokens", "3000", "--passage", "6000", script=Script(record=str(record)))
    texts = [line["text"] for line in commands(record, "score")]
    assert result.code == 0 and texts == held_out_passages(6000)[: len(texts)]
    assert 4000 < len(texts[0]) <= 7000
    refused = cli("eval", model, "--task", "retrieval", "--passage", "6000")
    assert refused.code == 2 and "--passage is for --task perplexity" in refused.err


def test_a_text_of_ones_own_is_scored_whole_or_so_far(cli: Cli, model: str, tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_text("word " * 12_000)
    arguments = ["eval", model, "--text", str(path), "--json"]
    assert json.loads(cli(*arguments).out)["tokens"] >= 12_000
    assert json.loads(cli(*arguments, "--tokens", "700").out)["tokens"] == 700


def test_retrieval(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How it asks is another test's (test_retrieval.py)."""
    asked: list[Any] = []

    def find_again(session: Any, passages: list[str], at: Any, progress: Any) -> Finding:
        asked.append((passages, at.widths))
        scored = Scored(1, [7, 8], [-2.0, -2.0], [7, 9], [-1.0, -1.0], [0.5, 0.5], [7, 8])
        return Finding(Task("copying", 8, 4, 6, 0.125), Task("retrieval", 8, 1, 1, 0.125), [scored])

    monkeypatch.setattr("ebbtide.app.commands.evaluate.find_again", find_again)
    arguments = ["eval", model, "--task", "retrieval", "--arm", "uniform", "--bits", "5"]
    result = json.loads(cli(*arguments, "--json").out)
    assert asked == [(held_out_passages(), b"\x05\x06")]
    own = ["questions", "accuracy", "accuracy_interval", "full_accuracy", "chance", "above_chance"]
    assert list(result) == [*FIELDS, *EXTRA, "task", *own, "too_hard"]
    assert (result["task"], result["accuracy"], result["full_accuracy"]) == ("copying", 0.5, 0.75)
    assert result["above_chance"] and not result["too_hard"]["above_chance"]
    assert list(result["too_hard"]) == own and result["agreement"] == 0.5
    first, second, *others = cli(*arguments).out.splitlines()
    assert first.startswith("retrieval 12.5% of 8 answers") and "easier task" in first
    assert second.startswith("copying 50.0% of 8 answers") and others[0].startswith("perplexity")


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_what_is_no_text(cli: Cli, model: str, tmp_path: Path, content: bytes | None) -> None:
    text = tmp_path / "text"
    if content is not None:
        text.write_bytes(content)
    assert cli("eval", model, "--text", str(text)).code == 2


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--arm", "uniform"], "--arm uniform needs --bits"),
        (["--arm", "static"], "--arm static needs --bits"),
        (["--arm", "fp16", "--bits", "5"], "--bits says nothing about --arm fp16"),
        (["--arm", "dp"], "--arm dp needs --bits, the planes per expert weight, or --budget"),
        (["--arm", "dp", "--bits", "5", "--budget", "9MiB"], "--bits and --budget both say"),
        (["--bits", "5", "--budget", "40%"], "--bits and --budget both say"),
        (["--arm", "static", "--budget", "auto"], "--budget auto is no size"),
        (["--arm", "fp16", "--bits", "5", "--budget", "9MiB"], "--bits says nothing"),
        (["--without", "routing", "--budget", "9MiB"], "--without leaves out"),
        (["--without", "routing"], "--without leaves out a signal of --arm paged"),
        (["--without", "routing", "--arm", "static", "--bits", "5"], "--without leaves out"),
        (["--without", "nothing", "--bits", "5"], "--without"),
        (["--task", "retrieval", "--tokens", "5"], "--tokens is for --task perplexity"),
        (["--arm", "uniform", "--bits", "nan"], "nan is not a number"),
        (["--arm", "uniform", "--bits", "-1"], "--bits"),
        (["--tokens", "0"], "--tokens"),
        (["--arm", "other"], "--arm"),
    ],
)
def test_flags_that_do_not_go_together(cli: Cli, model: str, flags: list[str], words: str) -> None:
    result = cli("eval", model, *flags)
    assert result.code == 2 and words in result.err and result.err.count("\n") == 2


def test_what_the_engine_refuses(cli: Cli, model: str, text: str) -> None:
    script = Script(request_failure=["all planes take 9 MiB", "Give --budget 9MiB", "4"])
    done = cli("eval", model, "--text", text, "--arm", "uniform", "--bits", "4", script=script)
    assert done.code == 4 and "9 MiB" in done.err and "--budget 9MiB" in done.err


def test_an_empty_text_is_too_short(cli: Cli, model: str, tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_text(" \n")
    result = cli("eval", model, "--text", str(path))
    assert result.code == 2 and "too short" in result.err
