"""The end of an answer: what is still shown of what was held back."""

from typing import Any, cast

import pytest

from ebbtide.engine.messages import FinishReason, Generate
from ebbtide.engine.request import Request
from ebbtide.engine.stop import StopFilter
from ebbtide.engine.telemetry import RequestClock
from ebbtide.engine.text import Detokenizer


class Bytes:
    """A vocabulary of single bytes."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])


def request_of() -> Request:
    return Request(
        command=Generate(1, turns=[]),
        ids=[],
        prompt_tokens=0,
        limit=100,
        sequence=cast("Any", None),
        cached_tokens=0,
        detokenizer=Detokenizer(cast("Any", Bytes())),
        stop=StopFilter(["stop here"]),
        clock=RequestClock(),
    )


@pytest.mark.parametrize("reason", ["cancelled", "length", "context"])
def test_half_a_character_at_a_break_is_no_text(reason: FinishReason) -> None:
    request = request_of()
    for byte in "wave st👋".encode()[:-2]:
        request.take(byte, is_end=False, context_full=False)
    request.finish_reason = reason
    request.close()
    assert request.text == "wave st"


def test_half_a_character_at_the_models_own_end_is_shown_as_such() -> None:
    request = request_of()
    for byte in "a👋".encode()[:-1]:
        request.take(byte, is_end=False, context_full=False)
    request.take(0, is_end=True, context_full=False)
    request.close()
    assert request.text == "a\N{REPLACEMENT CHARACTER}"
