"""`--plain`: questions in, answers out, and what happens when the engine dies."""

from pathlib import Path

import pytest

from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script
from tests.helpers.tiny_models import write_tiny


def test_a_chat_line_by_line(cli: Cli, model: str) -> None:
    result = cli("chat", model, "--plain", stdin="one\n\ntwo\n/bye\nthree\n")
    assert (result.code, result.out) == (0, "You said: one\nYou said: two\n")


@pytest.mark.parametrize("word", ["/quit", "/bye", "/exit", " /quit "])
def test_every_word_that_people_know_ends_the_chat(cli: Cli, model: str, word: str) -> None:
    result = cli(model, "--plain", stdin=f"{word}\nnever asked\n")
    assert (result.code, result.out) == (0, "")


def test_what_people_type_by_habit(
    cli: Cli, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("from the file")
    (tmp_path / "sub").mkdir()
    habits = '"""\ntwo\nlines\n"""\n!ls -l\n !important?\nsee @notes.txt\nsee @sub\n/nonsense\n'
    result = cli(model, "--plain", stdin=habits)
    said = result.out.split("You said: ")[1:]
    assert said[0] == "two\nlines\n" and said[1] == " !important?\n"
    assert "from the file" in said[2] and len(said) == 3
    for told in ("runs no shell commands", "@sub is a folder", "no command /nonsense"):
        assert told in result.err


def test_commands_that_are_not_here_are_refused_and_paths_are_asked(cli: Cli, model: str) -> None:
    typed = "/theme dark\n/budgte 300MiB\n/frob me\n/usr/bin/x is what?\n/tmp is full\n"
    result = cli(model, "--plain", stdin=typed)
    assert result.out == "You said: /usr/bin/x is what?\nYou said: /tmp is full\n"
    for told in ("/theme works in the full screen only", "Did you mean /budget?", "no command /frob"):
        assert told in result.err


def test_model_budget_and_context_are_changed_line_by_line(cli: Cli, model: str, tmp_path: Path) -> None:
    other, record = write_tiny(tmp_path / "other.gguf", "llama"), tmp_path / "commands"
    typed = f"/budget 300MiB\n/ctx 2048\n/ctx many\n/budget\n/model {other}\n/model nowhere\nhello\n"
    result = cli(model, "--plain", stdin=typed, script=Script(record=str(record)))
    assert result.out == "You said: hello\n"
    for told in ("'many' is not a number", "The budget is 300 MiB", "nowhere"):
        assert told in result.err
    last = [line for line in record.read_bytes().splitlines() if b'"load"' in line][-1]
    assert b"other.gguf" in last and b'"budget":"300MiB"' in last and b'"ctx":2048' in last


def test_the_end_of_the_input_ends_the_chat(cli: Cli, model: str) -> None:
    assert cli(model, stdin="one\n").out == "You said: one\n"


def test_commands_and_notices(cli: Cli, model: str) -> None:
    result = cli(
        model, "--plain", stdin="/help\n/new\n", script=Script(notices=["a notice"], progress_steps=2)
    )
    assert result.out == "" and "begin a new chat" in result.err
    assert "a notice" in result.err and "Loading" not in result.err


def test_the_engines_death_and_the_next_question(cli: Cli, model: str) -> None:
    script = Script(answer="one two three", die_after_tokens=1)
    result = cli(model, "--plain", stdin="a\nb\n", script=script)
    assert result.code == 7 and result.out.split() == ["one", "one"]
    assert result.err.count("killed by SIGKILL") == 2


def test_a_model_that_does_not_load(cli: Cli, model: str) -> None:
    """A pipe's questions have nobody to answer them: it is said once, and the exit code tells."""
    script = Script(load_failure=["corrupt", "Fetch it again.", "3"])
    for stdin in ("", "one\n", "one\ntwo\n/new\n"):
        result = cli(model, "--plain", stdin=stdin, script=script)
        assert (result.code, result.out) == (3, "")
        assert result.err == "ebbtide: Corrupt.\n  Fetch it again.\n"


def test_on_a_pipe_the_first_failure_is_the_exit_code(cli: Cli, model: str) -> None:
    long = Script(request_failure=["too long", "Shorten it.", "5"], fail_when_turns=1)
    result = cli(model, stdin="one\n/nonsense\n", script=long)
    assert result.code == 5 and result.err.count("ebbtide: ") == 2
    refused = cli(model, stdin="/nonsense\ntwo\n")
    assert (refused.code, refused.out) == (2, "You said: two\n")


def test_control_characters(cli: Cli, model: str) -> None:
    assert cli(model, "--plain", stdin="a\n", script=Script(answer="\x1b[31mx\x9b")).out == "[31mx\n"


def test_bytes_that_are_not_utf8_do_not_end_the_chat(cli: Cli, model: str) -> None:
    result = cli(model, stdin=b"a\xffb\nlast\n".decode("utf-8", "surrogateescape"))
    assert result.out == "You said: a\N{REPLACEMENT CHARACTER}b\nYou said: last\n"
