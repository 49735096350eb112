"""The starter model as the app sees it: where its file is, and making it when it is missing."""

from collections.abc import Callable
from pathlib import Path

from ebbtide.app.background import run_job
from ebbtide.app.paths import Paths

STARTER = "starter"
DEFAULT_QUANT = "Q8_0"
QUANTS = ("Q8_0", "Q4_1", "Q5_1")


def starter_file(paths: Paths, quant: str = DEFAULT_QUANT) -> Path:
    """Where the starter of this quantisation is, or will be."""
    return paths.models / f"starter-{quant}.gguf"


def make_starter(
    paths: Paths, quant: str, on_progress: Callable[[str, int, int], None], *, force: bool = False
) -> Path:
    """Fetch and build the starter in a process of its own, unless it is there; returns its file.

    Raises NetworkError, FitError (disk), ModelError (a wrong hash) and EngineDied. Interrupted, the next call
    resumes or starts clean.
    """
    arguments = ["starter", str(paths.models), quant, *(["force"] if force else [])]
    return run_job(arguments, paths.engine_log, on_progress)
