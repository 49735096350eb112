"""Opening a GGUF file: the frame around keys and tensors.

Layout: magic, version, two counts, keys, tensor table, padding to the alignment, tensor data
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Versions 2 and 3 share it.
"""

import os
import stat
from pathlib import Path

from gguf.constants import GGUF_DEFAULT_ALIGNMENT, Keys

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf.cursor import Cursor
from ebbtide.engine.gguf.faults import (
    damaged,
    file_name,
    shown,
    truncated,
    unsupported,
    wrong_value,
)
from ebbtide.engine.gguf.file import GgufFile
from ebbtide.engine.gguf.remedy import remedy, remedy_by
from ebbtide.engine.gguf.tensors import place_tensors, read_tensors
from ebbtide.engine.gguf.values import Metadata, read_metadata

KEYS_LIMIT = 1 << 16
TENSORS_LIMIT = 1 << 17

_MAGIC = b"GGUF"
_SPLIT_COUNT = "split.count"
_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive or PyTorch checkpoint",
    b"ggml": "an old GGML file",
    b"lmgg": "an old GGML file",
    b"tjgg": "an old GGJT file",
    b"fmgg": "an old GGMF file",
    b"<!DO": "a web page (the download was answered by a log-in or error page)",
    b"<htm": "a web page (the download was answered by a log-in or error page)",
    b"vers": "a Git LFS pointer, not the file it points to",
}
"""What other files begin with, so that the message can name them."""


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Read and check everything but the tensor data of the GGUF file at `path`.

    Raises `ModelError` when it is not there, not readable, not a GGUF, truncated, inconsistent, or of a kind
    that is not supported (version 1, big-endian, one part of a split model). Nothing stays open.
    """
    where = Path(path)
    try:
        if not stat.S_ISREG(where.stat().st_mode):
            raise ModelError(f"{file_name(where)} is not a file", hint="Give the path of a .gguf file.")
        with where.open("rb") as stream:
            return _read(Cursor(where, stream, os.fstat(stream.fileno()).st_size))
    except FileNotFoundError as error:
        hint = "Check the path; `ebbtide ls` lists the models at hand."
        raise ModelError(f"There is no file {shown(str(where), 300)}", hint=hint) from error
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or "the path is not one"
        hint = "Check the path, its permissions and the disk."
        raise ModelError(f"{file_name(where)} cannot be read: {reason}", hint=hint) from error


def _read(cursor: Cursor) -> GgufFile:
    path = cursor.path
    version = _read_version(cursor)
    tensor_count, key_count = cursor.uint64(), cursor.uint64()
    if tensor_count > TENSORS_LIMIT or key_count > KEYS_LIMIT:
        raise damaged(path, f"its header claims {tensor_count} tensors and {key_count} keys")
    metadata = read_metadata(cursor, key_count)
    _refuse_parts(path, metadata)
    with remedy_by(metadata):
        infos = read_tensors(cursor, tensor_count)
        alignment = _alignment(path, metadata)
        start = -(-cursor.position // alignment) * alignment
        tensors = place_tensors(path, infos, start, alignment, cursor.size)
    return GgufFile(path, version, cursor.size, alignment, start, metadata, tensors)


def _read_version(cursor: Cursor) -> int:
    _check_magic(cursor)
    version = cursor.uint32()
    if version & 0xFFFF == 0:
        raise unsupported(cursor.path, "it is big-endian", "Use the little-endian file of this model.")
    if version not in (2, 3):
        hint = "Use a file of GGUF version 3, the current one."
        raise unsupported(cursor.path, f"GGUF version {version}", hint)
    return version


def _check_magic(cursor: Cursor) -> None:
    if cursor.size == 0:
        raise ModelError(f"{file_name(cursor.path)} is empty", hint=remedy(cursor.path))
    magic = cursor.raw(min(4, cursor.size))
    if magic == _MAGIC:
        return
    if _MAGIC.startswith(magic):
        raise truncated(cursor.path, "the header", 24, cursor.size)
    known = f"; it looks like {_OTHER_FORMATS[magic]}" if magic in _OTHER_FORMATS else ""
    raise ModelError(
        f"{file_name(cursor.path)} is not a GGUF file{known}",
        hint="Give the path of a .gguf file; `ebbtide pull` fetches one.",
    )


def _refuse_parts(path: Path, metadata: Metadata) -> None:
    parts = metadata.get(_SPLIT_COUNT, 1)
    if isinstance(parts, int) and parts > 1:
        hint = "Join the parts with `llama-gguf-split --merge FIRST_PART OUT.gguf` and open the result."
        raise unsupported(path, f"it is one of {parts} parts of a split model", hint)


def _alignment(path: Path, metadata: Metadata) -> int:
    if Keys.General.ALIGNMENT not in metadata:
        return int(GGUF_DEFAULT_ALIGNMENT)
    value = metadata[Keys.General.ALIGNMENT]
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        raise wrong_value(path, Keys.General.ALIGNMENT, shown(repr(value)), "a power of two")
    return value
