"""Named arrays and a record about them in one file (NumPy's .npz): written whole or not at all, read with
checks.
"""

import fcntl
import os
import struct
import time
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.errors import FitError, ModelError
from ebbtide.engine.gguf.faults import file_name

Arrays = dict[str, NDArray[Any]]
Record = TypeVar("Record", bound=msgspec.Struct)

PATIENCE_S, NAP_S = 2.0, 0.02
"""A file of this kind is written in less than a second."""

_ABOUT = "about"


class _Contents(msgspec.Struct, frozen=True):
    """What the member `about` holds: damage to the archive's own table could leave out others unnoticed."""

    names: list[str]
    record: msgspec.Raw


_DAMAGE = (
    *(OSError, EOFError, ValueError, KeyError, NotImplementedError, MemoryError, OverflowError),
    *(struct.error, zipfile.BadZipFile, zlib.error, msgspec.DecodeError, UnicodeDecodeError),
)
"""What the reading of bytes raises that are no such file."""


def write_arrays(path: Path, about: msgspec.Struct, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Replace the file at `path`; whatever happens, it is there as before or as it should be.

    The same contents give the same bytes. Raises FitError where it cannot be written.
    """
    fresh = path.with_name(path.name + ".new")
    contents = _Contents(sorted(arrays), msgspec.Raw(msgspec.json.encode(about)))
    record = np.frombuffer(msgspec.json.encode(contents), np.uint8)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as stream:
            _save(stream, {_ABOUT: record, **arrays})
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink()
        raise FitError(
            f"The calibration could not be written to {path.parent}: {error.strerror or error}",
            hint="Make room there, or check the permissions of that folder.",
        ) from error


@contextmanager
def alone(folder: Path, patience_s: float = PATIENCE_S) -> Iterator[bool]:
    """While this lasts no other process is in it for the same folder: what is read there may be changed and
    written back. False where another one does not leave in time: a process may be stopped in the middle.
    Where the file system has no locks, or the folder cannot be made, nobody is kept out.
    """
    at, is_alone = -1, True
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        at = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        is_alone = _locked(at, patience_s)
    try:
        yield is_alone
    finally:
        if at >= 0:
            os.close(at)


def _locked(at: int, patience_s: float) -> bool:
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
        time.sleep(NAP_S)


def read_record(path: Path, kind: type[Record], hint: str) -> Record:
    """The record alone. Raises as `read_arrays`, but arrays may be damaged."""
    return read_arrays(path, kind, hint, only=())[0]


def read_arrays(
    path: Path,
    kind: type[Record],
    hint: str,
    without: Collection[str] = (),
    only: Collection[str] | None = None,
) -> tuple[Record, Arrays]:
    """The record and the arrays of a file, but those `without`, or `only` those. Raises ModelError with
    `hint` where it cannot be read or is damaged.
    """

    def is_wanted(name: str) -> bool:
        return name == _ABOUT or (name not in without and (only is None or name in only))

    try:
        with zipfile.ZipFile(path) as archive:
            members = {Path(name).stem: name for name in archive.namelist()}
            arrays = {name: _array(archive, at) for name, at in members.items() if is_wanted(name)}
        contents = msgspec.json.decode(arrays.pop(_ABOUT).tobytes(), type=_Contents)
        about = msgspec.json.decode(contents.record, type=kind)
        del members[_ABOUT]
        if sorted(members) != contents.names:
            raise ValueError("an array is missing")
    except _DAMAGE as error:
        system = error.strerror if isinstance(error, OSError) else None
        reason = f"cannot be read: {system}" if system else "is damaged"
        raise ModelError(f"{file_name(path)} in {path.parent} {reason}", hint=hint) from error
    return about, arrays


def _save(stream: IO[bytes], arrays: Mapping[str, NDArray[Any]]) -> None:
    """As `np.savez`, in whose archives time and place play no part."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """One member, read to its end: only then its checksum is compared."""
    with archive.open(name) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read()
    return array
