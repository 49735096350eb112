"""What a file system says about its room."""

import shutil
from pathlib import Path


def free_bytes(folder: Path) -> int | None:
    """Free bytes where `folder` is. None where the file system keeps no count (ramfs, some network and FUSE
    mounts report a size of 0): then only a write can tell. Raises OSError.
    """
    usage = shutil.disk_usage(folder)
    return usage.free if usage.total else None
