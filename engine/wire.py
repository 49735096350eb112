"""Frames on the pipe between the app and an engine process: 4-byte little-endian length, then MessagePack.

Imports no torch and no numpy. Both ends use blocking binary streams, one thread per direction.
"""

import struct
from typing import IO, Any, Generic, TypeVar

import msgspec

from ebbtide.engine.errors import EngineDied
from ebbtide.engine.messages import Command, Event

HEADER = struct.Struct("<I")
MAX_FRAME_BYTES = 64 * 2**20
"""No message comes near this; a larger length means that something else was written to the pipe."""

Message = TypeVar("Message")


class WireError(EngineDied):
    """The other side sent something that is not a message; the pipe cannot be used any more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Start again; `ebbtide paths` names the folder of the engine's log.")


def encode(message: Command | Event) -> bytes:
    """The frame of one message. Raises WireError if it is longer than MAX_FRAME_BYTES."""
    body = msgspec.msgpack.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise WireError(f"a message of {len(body):,} bytes is too long for a frame ({MAX_FRAME_BYTES:,})")
    return HEADER.pack(len(body)) + body


def write_message(stream: IO[bytes], message: Command | Event) -> None:
    """Write one frame and flush it. Raises OSError (a closed pipe) and WireError."""
    stream.write(encode(message))
    stream.flush()


class FrameReader(Generic[Message]):
    """Reads messages of one type from a blocking binary stream."""

    def __init__(self, stream: IO[bytes], message_type: Any) -> None:
        self._stream = stream
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(message_type)

    def read(self) -> Message | None:
        """The next message, or None at the end of the stream. Raises WireError on anything else."""
        header = self._read_exactly(HEADER.size, may_end=True)
        if header is None:
            return None
        (length,) = HEADER.unpack(header)
        if length > MAX_FRAME_BYTES:
            raise WireError(f"a frame claims {length:,} bytes: something else than messages was on the pipe")
        body = self._read_exactly(length, may_end=False)
        try:
            return self._decoder.decode(body or b"")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise WireError(f"a frame of {length:,} bytes could not be read ({error})") from error

    def _read_exactly(self, count: int, *, may_end: bool) -> bytes | None:
        parts: list[bytes] = []
        missing = count
        while missing:
            part = self._stream.read(missing)
            if not part:
                if may_end and missing == count:
                    return None
                raise WireError(f"the pipe ended inside a frame ({count - missing} of {count} bytes)")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def command_reader(stream: IO[bytes]) -> FrameReader[Command]:
    """The engine's end: commands from the app."""
    return FrameReader(stream, Command)


def event_reader(stream: IO[bytes]) -> FrameReader[Event]:
    """The app's end: events from the engine."""
    return FrameReader(stream, Event)
