"""`run` when the engine fails in the middle of an answer: what was said is kept, and the exit code tells."""

import json

import pytest

from tests.app.test_run_command import MEMORY_FIELDS
from tests.helpers.app_types import Cli
from tests.helpers.fake_engine import Script

FAILURE = ["memory for keys ran out", "ask for less", "5"]


def test_json_of_an_engine_that_died(cli: Cli, model: str) -> None:
    result = cli("run", model, "-p", "hi", "--json", script=Script(answer="a b c d", die_after_tokens=2))
    said = json.loads(result.out)
    assert result.code == 7 and "SIGKILL" in result.err
    assert list(said) == ["text", "token_ids", "finish_reason", "usage", "timings", "memory"]
    assert (said["text"], said["token_ids"], said["finish_reason"]) == ("a b", [0, 1], "error")
    assert said["usage"] == {"prompt": 1, "cached": 0, "completion": 2}
    assert said["timings"]["load_s"] == 0.5 and said["timings"]["decode_tok_s"] == 50.0
    assert 0 < said["timings"]["first_token_s"] < 60 and said["timings"]["max_gap_s"] > 0
    assert list(said["memory"]) == MEMORY_FIELDS and said["memory"]["budget_bytes"] == 300 << 20


def test_json_of_an_engine_that_died_before_the_first_token(cli: Cli, model: str) -> None:
    result = cli("run", model, "-p", "hi", "--json", script=Script(answer="a b", die_after_tokens=0))
    said = json.loads(result.out)
    assert result.code == 7
    assert (said["text"], said["token_ids"], said["finish_reason"]) == ("", [], "error")
    assert said["timings"]["first_token_s"] == 0 and said["memory"]["budget_bytes"] == 300 << 20


def test_json_of_an_answer_that_failed(cli: Cli, model: str) -> None:
    script = Script(answer="a b c d", request_failure=FAILURE, fail_after_tokens=3)
    result = cli("run", model, "-p", "hi", "--json", script=script)
    said = json.loads(result.out)
    assert result.code == 5 and "Memory for keys ran out" in result.err and "Ask for less" in result.err
    assert (said["text"], said["token_ids"], said["finish_reason"]) == ("a b c", [0, 1, 2], "error")


def test_a_request_that_never_began_prints_nothing(cli: Cli, model: str) -> None:
    result = cli("run", model, "-p", "hi", "--json", script=Script(request_failure=FAILURE))
    assert (result.code, result.out) == (5, "")


DYING = Script(answer="a b c d", die_after_tokens=2)
FAILING = Script(answer="a b c d", request_failure=FAILURE, fail_after_tokens=2)


@pytest.mark.parametrize(("script", "code"), [(DYING, 7), (FAILING, 5)])
def test_text_ends_with_a_newline_before_the_error(cli: Cli, model: str, script: Script, code: int) -> None:
    result = cli("run", model, "-p", "hi", script=script)
    assert (result.out, result.code) == ("a b\n", code)
