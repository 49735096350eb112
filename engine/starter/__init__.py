"""The starter model: made on first use from a public dense base and the deltas that ebbtide ships."""

from __future__ import annotations

from pathlib import Path

from ebbtide.engine.errors import EbbtideError, FitError, ModelError, NetworkError, UsageError
from ebbtide.engine.starter.build import StarterBuilder
from ebbtide.engine.starter.progress import Progress, silent

__all__ = [
    "EbbtideError",
    "FitError",
    "ModelError",
    "NetworkError",
    "Progress",
    "UsageError",
    "ensure_starter",
]


def ensure_starter(
    cache_dir: Path, quant: str = "Q8_0", *, force: bool = False, progress: Progress | None = None
) -> Path:
    """Path of the starter's GGUF under `cache_dir`, at once if it is there, else made now.

    `progress(stage, done, total)` counts bytes in stages "download", "verify" and "extract" and tensors
    in "expand". Raises NetworkError, FitError (disk), ModelError (damaged file) or UsageError (`quant`);
    whatever happens, an unfinished file never carries the finished name and marker.
    """
    return StarterBuilder(cache_dir, quant, progress or silent).ensure(force)
