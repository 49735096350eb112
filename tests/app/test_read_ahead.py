"""How far a disk reads ahead, on trees that look like the kernel's."""

import os
import sys
from pathlib import Path

import pytest

from ebbtide.app.compare.read_ahead import read_ahead_bytes

DISK, PARTITION, SHARE = os.makedev(8, 0), os.makedev(8, 1), os.makedev(0, 45)


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A disk of 128 KiB with a partition, and a file system without a disk of 1 MiB."""
    disk = tmp_path / "devices" / "sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue" / "read_ahead_kb").write_text("128\n")
    (tmp_path / "dev" / "block").mkdir(parents=True)
    (tmp_path / "dev" / "block" / "8:0").symlink_to(disk)
    (tmp_path / "dev" / "block" / "8:1").symlink_to(disk / "sda1")
    share = tmp_path / "class" / "bdi" / "0:45"
    share.mkdir(parents=True)
    (share / "read_ahead_kb").write_text("1024\n")
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="it has no numbers of devices")
@pytest.mark.parametrize(("device", "nbytes"), [(DISK, 128 << 10), (PARTITION, 128 << 10), (SHARE, 1 << 20)])
def test_the_disk_of_a_file(system: Path, device: int, nbytes: int) -> None:
    assert read_ahead_bytes(device, system) == nbytes


@pytest.mark.skipif(sys.platform == "win32", reason="it has no numbers of devices")
@pytest.mark.parametrize("text", ["", "much", "-1"])
def test_what_is_not_told_is_none(system: Path, text: str) -> None:
    assert read_ahead_bytes(os.makedev(9, 9), system) is None
    assert read_ahead_bytes(DISK, system / "nowhere") is None
    (system / "devices" / "sda" / "queue" / "read_ahead_kb").write_text(text)
    assert read_ahead_bytes(DISK, system) is None


def test_this_machine(tmp_path: Path) -> None:
    found = read_ahead_bytes(tmp_path.stat().st_dev)
    assert found is None or found >= 0
