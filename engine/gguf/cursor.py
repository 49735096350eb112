"""A forward reader over the header of a file that may lie about its own sizes."""

from pathlib import Path
from struct import Struct
from typing import BinaryIO

from ebbtide.engine.gguf.faults import damaged, truncated, unsupported

HEADER_LIMIT = 128 << 20
"""Bytes. The largest vocabularies known need about 40 MiB."""

_CHUNK = 1 << 20
_U32 = Struct("<I")
_U64 = Struct("<Q")


class Cursor:
    """Reads values one after the other; memory grows with what was read, never with what the file claims.

    `where` names the part being read, for error texts. Every method raises `ModelError` when the bytes it
    needs lie beyond the end of the file or beyond `HEADER_LIMIT`.
    """

    def __init__(self, path: Path, stream: BinaryIO, size: int) -> None:
        self.path = path
        self.size = size
        self.position = 0
        self.where = "the header"
        self._stream = stream
        self._buffer = bytearray()

    def number(self, layout: Struct) -> int | float | bool:
        """The next scalar of a one-value little-endian layout."""
        self._need(self.position + layout.size)
        value: int | float | bool = layout.unpack_from(self._buffer, self.position)[0]
        self.position += layout.size
        return value

    def uint32(self) -> int:
        return int(self.number(_U32))

    def uint64(self) -> int:
        return int(self.number(_U64))

    def raw(self, count: int) -> bytes:
        """The next `count` bytes."""
        end = self.position + count
        self._need(end)
        taken = bytes(self._buffer[self.position : end])
        self.position = end
        return taken

    def text(self) -> str:
        """The next length-prefixed string."""
        raw = self.raw(self.uint64())
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise damaged(self.path, f"{self.where} is not valid UTF-8") from error

    def strings(self, count: int) -> bytes:
        """The bytes of the next `count` length-prefixed strings, their lengths checked, nothing decoded."""
        start = position = self.position
        unpack, filled = _U64.unpack_from, len(self._buffer)
        for _ in range(count):
            if position + 8 > filled:
                self._need(position + 8)
                filled = len(self._buffer)
            position += 8 + unpack(self._buffer, position)[0]
        self._need(position)
        self.position = position
        return bytes(self._buffer[start:position])

    def _need(self, end: int) -> None:
        """Buffer the file up to byte `end`."""
        if end <= len(self._buffer):
            return
        if end > self.size:
            raise truncated(self.path, self.where, end, self.size)
        if end > HEADER_LIMIT:
            hint = "Use a GGUF whose vocabulary and metadata are of ordinary size."
            raise unsupported(self.path, f"its header is larger than {HEADER_LIMIT >> 20} MiB", hint)
        wanted = max(end, min(len(self._buffer) + _CHUNK, self.size))
        self._buffer += self._stream.read(wanted - len(self._buffer))
        if len(self._buffer) < end:
            raise truncated(self.path, self.where, end, len(self._buffer))
