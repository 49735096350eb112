"""What the starter is made of: names, sizes and hashes, read from `assets/starter/manifest.json`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ebbtide.engine.errors import ModelError

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Base:
    """The dense base: a GGUF file inside a Python wheel."""

    package: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    gguf_bytes: int
    gguf_sha256: str


@dataclass(frozen=True)
class DeltaFile:
    """The trained part; `path` is the installed file."""

    path: Path
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """`out_bytes` is about the finished file's size for each quant."""

    base: Base
    delta: DeltaFile
    out_bytes: dict[str, int]

    @property
    def quants(self) -> tuple[str, ...]:
        return tuple(self.out_bytes)


def shipped_folder() -> Path:
    return Path(str(resources.files("ebbtide"))) / "assets" / "starter"


def read_manifest(folder: Path) -> Manifest:
    """ModelError if the installation is damaged."""
    try:
        listed = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        base = Base(**{name: listed["base"][name] for name in Base.__dataclass_fields__})
        delta = DeltaFile(folder / listed["delta"]["file"], listed["delta"]["sha256"])
        return Manifest(base, delta, dict(listed["out_bytes"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"the starter's manifest in {folder} cannot be read: {error!r}", hint="install ebbtide again."
        ) from error


def sha256_of(path: Path, progress: Callable[[int], None] | None = None) -> str:
    """Hex digest; `progress` is told the bytes done."""
    digest, done = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done)
    return digest.hexdigest()
