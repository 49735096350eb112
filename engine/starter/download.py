"""One wheel by pip, in a child process that can be watched and stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

POLL_S = 0.1


class PipResult(NamedTuple):
    """Exit status of pip and everything it printed."""

    status: int
    output: str


PipRunner = Callable[[str, Path, Callable[[int], None]], PipResult]


def run_pip(requirement: str, folder: Path, watch: Callable[[int], None]) -> PipResult:
    """Download `requirement` without its dependencies into `folder`; `watch` is told the bytes so far.

    pip writes to its temporary folder first, so that is put inside `folder`: whatever an interrupted
    download leaves is in one place, and the folder's size is the progress, whatever pip's version.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--dest", str(folder)]
    log = folder / "pip.log"
    environment = {**os.environ, "TMPDIR": str(folder)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, requirement],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            while process.poll() is None:
                watch(_folder_bytes(folder))
                time.sleep(POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return PipResult(process.returncode, log.read_text(encoding="utf-8", errors="replace"))


def _folder_bytes(folder: Path) -> int:
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).stat().st_size
            except OSError:  # pip moved it in the meantime
                continue
    return total
