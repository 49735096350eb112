"""How far the system reads ahead on a disk: what a fault on a mapped file brings in at once. Linux only."""

import os
import sys
from pathlib import Path

SYS = Path("/sys")


def read_ahead_bytes(device: int, system: Path = SYS) -> int | None:
    """Of the device that `st_dev` of a file names; None where the system does not say.

    A disk's setting is that of its queue, which its partitions share; file systems without a disk, such as
    NFS, have one in /sys/class/bdi (Documentation/ABI, sysfs-block and sysfs-class-bdi).
    """
    if sys.platform == "win32":
        return None
    name = f"{os.major(device)}:{os.minor(device)}"
    disk = (system / "dev/block" / name).resolve()
    folders = (disk / "queue", disk.parent / "queue", system / "class/bdi" / name)
    file = next((path for folder in folders if (path := folder / "read_ahead_kb").exists()), None)
    try:
        text = file.read_text().strip() if file is not None else ""
    except OSError:
        return None
    return int(text) << 10 if text.isdecimal() else None
