"""The command line as a whole: what runs, exit codes, errors, flags of later versions."""

import json
from pathlib import Path

import pytest

from ebbtide.app.commands import run as run_module
from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script
from tests.helpers.tiny_models import write_tiny

COMMANDS = (
    "run",
    "pull",
    "pack",
    "show",
    "eval",
    "bench",
    "compare",
    "doctor",
    "paths",
    "ls",
    "rm",
    "chat",
    "chats",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(cli: Cli, command: str) -> None:
    result = cli(command, "--help")
    assert result.code == 0 and f"ebbtide {command}" in result.out


def test_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("ebbtide ")


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        (1, ["Internal error: ValueError: x.", "Report it.", "1"]),
        (2, ["--isa avx512 is not there", "Use auto.", "2"]),
        (3, ["the file is corrupt", "Fetch it again.", "3"]),
        (4, ["it does not fit", "Give --budget 9GB.", "4"]),
        (6, ["no network", "Connect.", "6"]),
    ],
)
def test_a_failed_load_ends_with_its_code(cli: Cli, model: str, code: int, failure: list[str]) -> None:
    result = cli("run", model, "-p", "hi", script=Script(load_failure=failure))
    assert result.code == code and result.out == ""
    message = f"{failure[0][0].upper()}{failure[0][1:].rstrip('.')}."
    assert result.err == f"ebbtide: {message}\n  {failure[1]}\n"


def test_a_failed_request_ends_with_its_code(cli: Cli, model: str) -> None:
    failure = ["the prompt has 9,000 tokens, the context 4,096", "Use a larger --ctx.", "5"]
    assert cli("run", model, "-p", "hi", script=Script(request_failure=failure)).code == 5


def test_a_dead_engine_is_7(cli: Cli, model: str) -> None:
    result = cli("run", model, "-p", "hi", script=Script(answer="a b c", die_after_tokens=2))
    assert result.code == 7 and result.out == "a b\n" and "SIGKILL" in result.err


def test_a_missing_model_is_3(cli: Cli) -> None:
    assert cli("run", "nowhere.gguf", "-p", "hi").code == 3


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("help", "`ebbtide --help`"),
        ("chatt", "`ebbtide chat` or `ebbtide chats`"),
        ("docter", "`ebbtide doctor`"),
        ("startr", "Is it starter?"),
    ],
)
def test_a_mistyped_word_names_what_may_be_meant(cli: Cli, typed: str, meant: str) -> None:
    result = cli(typed)
    assert result.code == 3 and meant in result.err and "No model" in result.err


def test_a_flag_without_its_value_names_the_right_help(cli: Cli) -> None:
    assert "`ebbtide run --help`" in cli("run", "-p").err
    assert "`ebbtide chat --help`" in cli("--budget").err and "`ebbtide chat --help`" in cli("x", "-p").err


def test_the_help_of_a_size_says_how_it_is_written(cli: Cli) -> None:
    for command in ("bench", "compare", "run", "chat"):
        assert "300MiB, 8GB, 40%" in " ".join(cli(command, "--help").out.split())
    assert "each contender, such as 2500MiB or 8GB" in " ".join(cli("compare", "--help").out.split())


def test_only_flags_that_are_near_and_listed_may_be_meant(cli: Cli) -> None:
    assert "There is no flag --rnus. Did you mean --runs?\n" in cli("bench", "--rnus", "3").err
    for typed in ("--bogus", "--kvv", "--resizes", "--x"):
        result = cli("run", typed)
        assert result.code == 2 and "Did you mean" not in result.err
        assert result.err.startswith(f"ebbtide: There is no flag {typed}.\n")


def test_a_word_like_nothing_gets_the_usual_hint(cli: Cli) -> None:
    for arguments in (["zzzzzz"], ["run", "chatt", "-p", "hi"], ["-p"]):
        result = cli(*arguments)
        assert result.code != 0 and "Did you mean" not in result.err and "Is it" not in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--budget", "lots"],
        ["run", "--temperature", "-1"],
        ["run", "--nonsense"],
        ["run", "a", "b"],
        ["bench", "--prefill", "1,zero"],
        ["eval", "--bits", "five"],
    ],
)
def test_wrong_usage_is_2(cli: Cli, arguments: list[str]) -> None:
    result = cli(*arguments, stdin="hi")
    assert result.code == 2 and result.err.count("\n") == 2


def test_an_internal_error_is_1_and_debug_shows_the_traceback(
    cli: Cli, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(run_module, "prepare_load", fail)
    result = cli("run", model, "-p", "hi")
    assert result.code == 1 and "ZeroDivisionError: oops" in result.err and "Traceback" not in result.err
    assert "Traceback" in cli("run", model, "-p", "hi", "--debug").err


def test_the_engines_traceback_is_shown_with_debug_only(cli: Cli, model: str) -> None:
    script = Script(load_failure=["broken", "Repair it.", "1"])
    assert "fake engine" not in cli("run", model, "-p", "hi", script=script).err
    assert "Traceback of the fake engine" in cli("run", model, "-p", "hi", "--debug", script=script).err


@pytest.mark.parametrize(
    "flags",
    [
        ["--kv", "fp8"],
        ["--miss", "auto"],
        ["--resize", "pages"],
        ["--kv-verify", "full"],
        ["--record", "trace.bin"],
    ],
)
def test_flags_of_later_versions_are_refused_by_name(cli: Cli, model: str, flags: list[str]) -> None:
    result = cli("run", model, "-p", "hi", *flags)
    assert result.code == 2 and f"{flags[0]}" in result.err and "not available yet" in result.err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_flag_that_is_refused(cli: Cli, command: str) -> None:
    shown = cli(command, "--help").out.split()
    refused = "--kv --miss --resize --record"
    assert shown and not set(refused.split()) & set(shown)
    assert ("--width" in shown) == (command == "bench")
    assert ("--quality" in shown) == (command in ("chat", "run", "bench"))


def test_pull_fetches_the_starter_and_says_so(cli: Cli) -> None:
    result = cli("pull", "user/repo\x1b")
    assert result.code == 2 and "Only the starter" in result.err and "\x1b" not in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["serve"],
        ["compare", "--width", "4"],
    ],
)
def test_commands_of_later_versions_are_refused_by_name(cli: Cli, arguments: list[str]) -> None:
    result = cli(*arguments)
    assert result.code == 2 and "not available yet" in result.err


def test_paths(cli: Cli, home: Path) -> None:
    assert str(home) in cli("paths").out
    assert set(json.loads(cli("paths", "--json").out)) == {
        "settings",
        "models",
        "starter",
        "packs",
        "chats",
        "state",
        "engine_log",
    }


def test_ls_and_rm(cli: Cli, home: Path) -> None:
    assert cli("ls").out == ""
    path = home / "cache" / "models" / "mine.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 1000)
    assert "mine" in cli("ls").out
    assert json.loads(cli("ls", "--json").out)[0]["size_bytes"] == 1000
    assert cli("rm", "mine").code == 0 and not path.exists()
    assert cli("rm", "mine").code == 3


def test_rm_leaves_foreign_models_alone(cli: Cli, model: str) -> None:
    assert cli("rm", model).code == 2 and Path(model).exists()


def test_rm_takes_the_pack_of_the_model_only(cli: Cli, model: str, home: Path) -> None:
    from ebbtide.engine.weights.pack_index import pack_path_for

    own = pack_path_for(Path(model), home / "cache")
    other = own.with_name("tiny-0123456789ab.pack.gguf")
    own.parent.mkdir(parents=True)
    for path in (own, other, Path(f"{own}.part")):
        path.write_bytes(b"x")
    assert cli("rm", model).code == 0
    assert not own.exists() and not Path(f"{own}.part").exists() and other.exists()


def test_rm_takes_the_calibration_of_the_model_only(cli: Cli, home: Path) -> None:
    from ebbtide.engine.gguf import open_gguf
    from ebbtide.engine.precision.calibration_file import calibration_path, model_key
    from ebbtide.engine.weights.gguf_source import GgufSource

    (home / "cache" / "models").mkdir(parents=True)
    path = write_tiny(home / "cache" / "models" / "mine.gguf", "mixtral")
    source = GgufSource(open_gguf(path))
    kept = calibration_path(home / "cache", model_key(source))
    source.close()
    own = [kept, *(kept.with_suffix(f".{part}.npz") for part in ("part", "damage", "aside"))]
    other = kept.with_name("0123456789abcdef01234567.npz")
    kept.parent.mkdir(parents=True)
    for file in (*own, other):
        file.write_bytes(b"x")
    result = cli("rm", "mine", "--json")
    assert result.code == 0 and not path.exists()
    assert not any(file.exists() for file in own) and other.exists()
    assert set(json.loads(result.out)["removed"]) == {str(file) for file in (path, *own)}


@pytest.mark.parametrize("name", ["", " "])
@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "-p", "hi"],
        ["chat"],
        ["show"],
        ["doctor"],
        ["pack"],
        ["rm"],
        ["bench"],
        ["eval", "--text", __file__],
    ],
)
def test_an_empty_model_is_a_usage_error(cli: Cli, arguments: list[str], name: str) -> None:
    result = cli(*arguments, name)
    assert result.code == 2 and "MODEL is empty" in result.err and "ebbtide ls" in result.err


def test_an_empty_model_flag_is_a_usage_error(cli: Cli, model: str) -> None:
    assert cli("run", "--model", "", "-p", "hi").code == 2
    assert cli("", "--plain").code == 2
    assert cli("run", model, "--model", "", "-p", "hi").code == 2


def test_broken_settings_are_a_usage_error(cli: Cli, home: Path, model: str) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "settings.toml").write_text("[engine]\nbudget = 3\n")
    result = cli("run", model, "-p", "hi")
    assert result.code == 2 and "budget" in result.err
