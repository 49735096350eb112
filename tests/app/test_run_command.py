"""`run`: the answer on standard output, the JSON object, and what is sent to the engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ebbtide.app.context import AppContext
from ebbtide.app.options import EngineFlags
from ebbtide.app.settings import Settings
from ebbtide.engine.messages import Generate, Load
from tests.helpers import fake_ebbtide
from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script

MEMORY_FIELDS = [
    "budget_bytes",
    "peak_bytes",
    "process_peak_bytes",
    "static_bytes",
    "expert_bytes",
    "kv_bytes",
    "transient_bytes",
    "expert_hit_rate",
    "bytes_paged_in",
    "width_histogram",
]


def sent(record: Path) -> tuple[Load, Generate]:
    """The commands that the scripted engine got."""
    lines = record.read_bytes().splitlines()
    return msgspec.json.decode(lines[0], type=Load), msgspec.json.decode(lines[1], type=Generate)


def test_the_answer_alone_is_on_stdout(cli: Cli, model: str) -> None:
    script = Script(answer="one two", progress_steps=3, notices=["a notice"])
    result = cli("run", model, "-p", "hi", script=script)
    assert (result.code, result.out) == (0, "one two\n")
    assert result.err == "a notice\n", "a log is not filled with progress"


def test_an_answer_that_ends_its_line_gets_no_second_newline(cli: Cli, model: str) -> None:
    assert cli("run", model, "-p", "hi", script=Script(answer="one\n")).out == "one\n"


def test_the_prompt_from_standard_input(cli: Cli, model: str) -> None:
    assert cli("run", model, stdin="over a pipe").out == "You said: over a pipe\n"


def test_what_is_piped_in_follows_the_prompt(cli: Cli, model: str) -> None:
    result = cli("run", model, "-p", "Explain this", stdin="def f():\n    return 1\n")
    assert result.out == "You said: Explain this\n\ndef f():\n    return 1\n"


@pytest.mark.parametrize("stdin", ["", " \n"])
def test_an_empty_pipe_adds_nothing(cli: Cli, model: str, stdin: str) -> None:
    assert cli("run", model, "-p", "hi", stdin=stdin).out == "You said: hi\n"


@pytest.mark.parametrize(
    ("piped", "asked"),
    [
        ("red \x1b[31mfox\x00\x07\n", "red [31mfox\n"),
        ("caf\udce9\n", "caf\ufffd\n"),
        ("\ufeffone\r\ntwo\r\n", "one\ntwo\n"),
    ],
)
def test_bad_bytes_in_a_pipe_do_no_harm(cli: Cli, model: str, tmp_path: Path, piped: str, asked: str) -> None:
    record = tmp_path / "commands"
    assert cli("run", model, "-p", "q", stdin=piped, script=Script(record=str(record))).code == 0
    assert sent(record)[1].turns[-1].content == f"q\n\n{asked}"


@pytest.mark.parametrize("stdin", ["", " \n"])
def test_an_empty_prompt_is_refused(cli: Cli, model: str, stdin: str) -> None:
    assert cli("run", model, stdin=stdin).code == 2


def test_json_has_exactly_the_fields_of_the_contract(cli: Cli, model: str) -> None:
    result = json.loads(cli("run", model, "-p", "hi", "--json").out)
    assert list(result) == ["text", "token_ids", "finish_reason", "usage", "timings", "memory"]
    assert list(result["usage"]) == ["prompt", "cached", "completion"]
    assert list(result["timings"]) == [
        "load_s",
        "first_token_s",
        "prefill_tok_s",
        "decode_tok_s",
        "max_gap_s",
    ]
    assert list(result["memory"]) == MEMORY_FIELDS
    assert result["text"] == "You said: hi" and result["finish_reason"] == "stop"
    assert result["memory"]["width_histogram"] == {"0": 10, "8": 30}


def test_max_tokens_ends_with_length(cli: Cli, model: str) -> None:
    result = json.loads(cli("run", model, "-p", "hi", "--json", "--max-tokens", "2").out)
    assert result["finish_reason"] == "length" and len(result["token_ids"]) == 2


def test_a_full_context_is_5_and_the_answer_is_kept(cli: Cli, model: str) -> None:
    result = cli("run", model, "-p", "hi", script=Script(answer="a b", finish_reason="context"))
    assert result.code == 5 and result.out == "a b\n" and "context" in result.err


def test_flags_reach_the_engine(cli: Cli, model: str, tmp_path: Path, home: Path) -> None:
    record = tmp_path / "commands"
    loading = "--budget 40% --ctx 512 --threads 1 --isa portable --policy lfu --pack no --device cuda:1"
    sampling = "--temperature 0.5 --top-k 3 --top-p 0.5 --min-p 0.1 --repeat-penalty 1.1 --seed 7"
    flags = f"{loading} {sampling}".split()
    flags += ["--max-tokens", "9", "--stop", "a", "--stop", "b", "--system", "be brief"]
    assert cli("run", "--model", model, "-p", "hi", *flags, script=Script(record=str(record))).code == 0
    load, request = sent(record)
    assert (load.path, load.budget, load.ctx, load.threads) == (model, "40%", 512, 1)
    assert (load.isa, load.policy, load.pack) == ("portable", "lfu", "no") and load.device == "cuda:1"
    assert load.cache_dir == str(home / "cache")
    assert [turn.role for turn in request.turns] == ["system", "user"]
    assert (request.max_tokens, request.stop) == (9, ["a", "b"])
    assert msgspec.structs.astuple(request.sampling) == (0.5, 3, 0.5, 0.1, 1.1, 7)


def test_flag_over_variable_over_settings(
    cli: Cli, model: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "commands"
    (home / "config").mkdir(parents=True)
    text = f'[engine]\nmodel = "{model}"\nbudget = "1GB"\n[sampling]\nseed = 5\n'
    (home / "config" / "settings.toml").write_text(text)
    script = Script(record=str(record))
    budgets = []
    for arguments, variable in (([], None), ([], "2GB"), (["--budget", "3GB"], "2GB")):
        record.unlink(missing_ok=True)
        monkeypatch.setenv("EBBTIDE_BUDGET", variable) if variable else None
        assert cli("run", "-p", "hi", *arguments, script=script).code == 0
        load, request = sent(record)
        budgets.append(load.budget)
        assert request.sampling.seed == 5
    assert budgets == ["1GB", "2GB", "3GB"]


def test_model_from_the_environment(cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBTIDE_MODEL", model)
    assert cli("run", "-p", "hi").code == 0


def test_control_characters_do_not_reach_the_terminal(cli: Cli, model: str) -> None:
    script = Script(answer="a\x1b]0;title\x07 \x9b2Jb\tc\n", notices=["n\x1b[31m"])
    result = cli("run", model, "-p", "hi", script=script)
    assert result.out == "a]0;title 2Jb\tc\n"
    assert "\x1b" not in result.err


def test_json_says_that_a_card_was_emulated(cli: Cli, model: str) -> None:
    wish = "vram=8GB,pcie=12GB/s"
    out = cli("run", model, "-p", "hi", "--json", "--emulate", wish).out
    assert json.loads(out)["emulated"] == wish
    out = cli("run", model, "-p", "hi", "--json", "--emulate", wish, script=Script(die_after_tokens=2)).out
    assert json.loads(out)["emulated"] == wish


def test_json_escapes_control_characters_and_keeps_them(cli: Cli, model: str) -> None:
    out = cli("run", model, "-p", "hi", "--json", script=Script(answer="\x1b[31m\x9b")).out
    assert out.isascii() and out.isprintable() is False and "\x1b" not in out
    assert json.loads(out)["text"] == "\x1b[31m\x9b"


def test_an_argument_that_is_not_utf8_is_a_prompt_all_the_same(cli: Cli, model: str) -> None:
    prompt = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert cli("run", model, "-p", prompt).out == "You said: caf\N{REPLACEMENT CHARACTER}\n"


@pytest.mark.parametrize("flag", ["--temperature", "--top-p", "--min-p", "--repeat-penalty"])
def test_nan_is_in_no_range(cli: Cli, model: str, flag: str) -> None:
    result = cli("run", model, "-p", "hi", flag, "nan")
    assert result.code == 2 and flag in result.err and "`ebbtide run --help`" in result.err


@pytest.mark.parametrize("arguments", [["run", "-p", "hi"], ["run", "-p", "hi", "--json"], ["paths"]])
def test_a_full_disk_is_told_and_is_no_internal_error(model: str, arguments: list[str]) -> None:
    program = [sys.executable, fake_ebbtide.__file__, msgspec.json.encode(Script()).decode()]
    which = [model] if arguments[0] == "run" else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(fake_ebbtide.__file__).parents[2])]),
    }
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*program, *arguments, *which],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    told = done.stderr.decode()
    assert "The output could not be written: No space left on device" in told and done.returncode == 4
    assert "internal error" not in told and "Exception ignored" not in told


def test_only_questions_are_learnt_from(cli: Cli, model: str, own_home: Path, tmp_path: Path) -> None:
    """Sums of what a person asks; what is measured shows something else, and settings may say no."""

    def learns(*arguments: str, stdin: str = "") -> bool:
        record = tmp_path / "commands"
        record.unlink(missing_ok=True)
        cli(*arguments, script=Script(record=str(record)), stdin=stdin)
        return msgspec.json.decode(record.read_bytes().splitlines()[0], type=Load).learn

    asks = "run", model, "-p", "hi"
    assert learns(*asks) and learns(model, "--plain", stdin="hi\n")
    assert not learns("bench", model, "--prefill", "16", "--decode", "9", "--runs", "1")
    assert not learns("eval", model, "--text", __file__)
    assert not EngineFlags().load(model, Settings(), "").learn, "nobody does who does not say so"
    settings = AppContext().paths.settings_file
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[engine]\nlearn = false\n")
    assert not learns(*asks) and not learns(model, "--plain", stdin="hi\n")
