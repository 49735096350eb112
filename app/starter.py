"""The starter model as the app sees it: where its file is, and making it when it is missing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import ebbtide
from ebbtide.app.paths import Paths

if TYPE_CHECKING:
    from ebbtide.engine.client import ClientEvent, EngineClient

STARTER = "starter"
DEFAULT_QUANT = "Q8_0"
QUANTS = ("Q8_0", "Q4_1", "Q5_1")
_ASSETS = Path(ebbtide.__file__).parent / "assets" / "starter"


def starter_file(paths: Paths, quant: str = DEFAULT_QUANT) -> Path:
    """Where the starter of this quantisation is, or will be."""
    return paths.starter / f"{STARTER}-{quant}.gguf"


def marker_of(path: Path) -> Path:
    """The note beside a starter's file, written last: a file without it is not finished."""
    return path.with_suffix(".json")


def is_starter(path: Path, paths: Paths) -> bool:
    """Whether this is a starter's file in ebbtide's own folder, there or not."""
    return path.parent == paths.starter and path.name.startswith(f"{STARTER}-")


def is_ready(path: Path) -> bool:
    """Whether a starter's file is finished and was made from the delta that this version ships."""
    try:
        note = json.loads(marker_of(path).read_text("utf-8"))
        shipped = json.loads((_ASSETS / "manifest.json").read_text("utf-8"))
        return bool(
            note["bytes"] == path.stat().st_size and note["delta_sha256"] == shipped["delta"]["sha256"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def bytes_when_made(quant: str = DEFAULT_QUANT) -> int:
    """The size of a starter's file that is not there yet; 0 where nobody knows."""
    try:
        return int(json.loads((_ASSETS / "manifest.json").read_text("utf-8"))["out_bytes"][quant])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def starter_fetcher(paths: Paths, on_event: "Callable[[ClientEvent], None]") -> "EngineClient":
    """A client, not started yet, of a process that makes the default starter; it ends with a `Made` event."""
    from ebbtide.app.background import job_client  # the path of a model is known without engines

    return job_client(job_arguments(paths, DEFAULT_QUANT), paths.engine_log, on_event)


def job_arguments(paths: Paths, quant: str, *, force: bool = False) -> list[str]:
    return ["starter", str(paths.cache), quant, *(["force"] if force else [])]


def make_starter(
    paths: Paths, quant: str, on_progress: Callable[[str, int, int], None], *, force: bool = False
) -> Path:
    """Fetch and build the starter in a process of its own, unless it is there; returns its file.

    Raises NetworkError, FitError (disk), ModelError (a wrong hash) and EngineDied. Interrupted, the next call
    resumes or starts clean.
    """
    from ebbtide.app.background import run_job

    return run_job(job_arguments(paths, quant, force=force), paths.engine_log, on_progress)
