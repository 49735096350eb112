"""Frames: what is written is read back; anything else is refused with a clear error, never trusted."""

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine import wire
from ebbtide.engine.messages import (
    Cancel,
    Command,
    Decision,
    Event,
    Failed,
    Generate,
    Load,
    Shutdown,
    Token,
    Turn,
)

COMMANDS: list[Command] = [
    Load("/a/b.gguf", budget="40%"),
    Generate(1, turns=[Turn("user", "déjà vu \U0001f30a\x1b[31m")], stop=["\n\n"]),
    Cancel(1),
    Shutdown(),
]
EVENTS: list[Event] = [
    Token(1, "x" * 100_000, [1, 2]),
    Failed(0, "what", "do", 4),
    Decision(1.5, "kv", "gave way", {"layer": 1, "seconds": 2.0}),
]


def test_commands_survive_the_pipe() -> None:
    stream = io.BytesIO(b"".join(wire.encode(command) for command in COMMANDS))
    reader = wire.command_reader(stream)
    assert [reader.read() for _ in COMMANDS] == COMMANDS
    assert reader.read() is None


def test_events_survive_the_pipe() -> None:
    stream = io.BytesIO()
    for event in EVENTS:
        wire.write_message(stream, event)
    stream.seek(0)
    reader = wire.event_reader(stream)
    read = [reader.read() for _ in EVENTS]
    assert read == EVENTS
    assert repr(read[-1]) == repr(EVENTS[-1]), "a whole number stays one"


@given(st.text(), st.lists(st.integers(0, 2**31 - 1)))
def test_any_text_survives(text: str, ids: list[int]) -> None:
    token = Token(7, text, ids)
    assert wire.event_reader(io.BytesIO(wire.encode(token))).read() == token


@given(st.binary(max_size=200))
def test_garbage_is_an_error_or_a_message_and_never_anything_else(data: bytes) -> None:
    reader = wire.event_reader(io.BytesIO(data))
    try:
        while (event := reader.read()) is not None:
            assert isinstance(event, msgspec.Struct)
    except wire.WireError as error:
        assert error.exit_code == 7 and error.hint


@given(st.data())
def test_a_damaged_frame_never_raises_anything_but_wire_error(data: st.DataObject) -> None:
    frame = bytearray(wire.encode(Failed(3, "message", "hint", 4, "detail")))
    position = data.draw(st.integers(0, len(frame) - 1))
    frame[position] = data.draw(st.integers(0, 255))
    reader = wire.event_reader(io.BytesIO(bytes(frame)))
    try:
        reader.read()
    except wire.WireError as error:
        assert "frame" in str(error)


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 20])
def test_an_end_inside_a_frame_is_named(cut: int) -> None:
    frame = wire.encode(Token(1, "hello, world", [1, 2, 3]))
    with pytest.raises(wire.WireError, match="ended inside a frame"):
        wire.event_reader(io.BytesIO(frame[:cut])).read()


def test_a_huge_length_is_refused_before_memory_is_taken() -> None:
    stream = io.BytesIO(wire.HEADER.pack(0xFFFFFFFF) + b"x" * 10)
    with pytest.raises(wire.WireError, match="4,294,967,295 bytes"):
        wire.event_reader(stream).read()
    assert stream.tell() == wire.HEADER.size


def test_a_too_long_message_is_refused_by_the_sender() -> None:
    with pytest.raises(wire.WireError, match="too long"):
        wire.encode(Token(1, "x" * (wire.MAX_FRAME_BYTES + 1), []))


def test_a_command_is_not_an_event() -> None:
    with pytest.raises(wire.WireError, match="could not be read"):
        wire.event_reader(io.BytesIO(wire.encode(Cancel(1)))).read()
