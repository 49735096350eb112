"""A virtual environment and its pip, as `start.py` uses them: quiet, logged, and safe to interrupt."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from setup_progress import Progress

MAKE_VENV = ("-m", "venv")
WORTH_TELLING_MB = 20.0
UNITS_MB = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}
DOWNLOAD = re.compile(r"\s*Downloading (\S+) \(([\d.]+) ([kMG]B)\)")


class SetupError(Exception):
    """Set-up cannot go on: what happened, and what a person can do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class PipError(SetupError):
    """pip ended with an error; its output is in the log."""


class TooLargeError(SetupError):
    """pip was about to download more than the caller allows; it was stopped before."""


def download_mb(line: str) -> tuple[str, float] | None:
    """File name and size in MB that a line of pip's output announces, before the first byte is fetched."""
    found = DOWNLOAD.match(line)
    return (found[1].rpartition("/")[2], float(found[2]) * UNITS_MB[found[3]]) if found else None


def size_words(mb: float) -> str:
    """MB as pip counts them, in the unit of all of ebbtide's sizes."""
    return f"{mb * 1e6 / (1 << 20):,.0f} MiB"


def pip_words(line: str) -> str:
    """What a line of pip's output says that pip is doing now; empty when it says nothing about that."""
    words = line.split()
    match words:
        case ["Collecting", requirement, *_]:
            return f"looking for {requirement}"
        case ["Downloading" | "Using", *_] if ".whl.metadata" in line:
            return ""
        case ["Downloading", *_] if (found := download_mb(line)) is not None:
            name = found[0].partition("-")[0]
            return f"fetching {name} ({size_words(found[1])})" if found[1] >= 1 else f"fetching {name}"
        case ["Building", "wheel" | "editable", "for", name, *_]:
            return f"building {name}"
        case ["Installing", "collected", "packages:", *names]:
            return f"unpacking {len(names)} package{'' if len(names) == 1 else 's'}"
        case _:
            return ""


def missing_venv_remedy(version: tuple[int, ...], is_debian: bool) -> str:
    """What to install when this Python cannot make virtual environments."""
    name = f"python{version[0]}.{version[1]}-venv"
    if is_debian:
        return f"Install the package {name} (sudo apt install {name}) and run this again."
    return f"Install your system's package for Python's venv and ensurepip (like {name}) and run this again."


def check_venv_module() -> None:
    """Raises SetupError, naming the package, when this Python lacks venv or ensurepip."""
    if all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        return
    remedy = missing_venv_remedy(sys.version_info[:2], Path("/etc/debian_version").exists())
    raise SetupError("This Python cannot make a virtual environment.", remedy)


class Venv:
    """The environment in `folder`. A marker file says that pip was at work in it: see `pip`."""

    def __init__(self, folder: Path, constraints: Path, progress: Progress | None = None) -> None:
        self.folder, self.constraints = folder, constraints
        self.progress = progress or Progress(1)
        self.log = folder / "ebbtide-setup.log"
        self.marker = folder / "ebbtide-installing"

    def program(self, name: str) -> Path:
        """Path of an executable inside the environment."""
        if sys.platform == "win32":
            return self.folder / "Scripts" / f"{name}.exe"
        return self.folder / "bin" / name

    def is_usable(self) -> bool:
        """False when there is none, when its Python is gone, or when pip was killed halfway through."""
        if self.marker.exists() or not self.program("python").exists():
            return False
        return self.answer("-c", "import pip, sys; print(sys.version)").strip() == sys.version

    def create(self) -> None:
        """Makes the environment, or makes it again from nothing."""
        check_venv_module()
        if self.folder.exists():
            shutil.rmtree(self.folder)
        command = [sys.executable, *MAKE_VENV, str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SetupError(
                f"Making {self.folder} failed: {(done.stderr or done.stdout).strip()}", "Run it again."
            )

    def answer(self, *arguments: str) -> str:
        """What the environment's Python prints; empty when it fails."""
        command = [str(self.program("python")), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError:
            return ""

    def version_of(self, package: str) -> str:
        """Version of a completely installed package, else empty (INSTALLER is one of the last files)."""
        code = (
            "import sys, importlib.metadata as m; d = m.distribution(sys.argv[1]); "
            "print(d.version if d.read_text('INSTALLER') else '')"
        )
        return self.answer("-c", code, package).strip()

    def pip(
        self, *arguments: str, limit_mb: float | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        """Runs `pip install` with the pins, its output in the log; large downloads are told.

        Raises PipError, or TooLargeError before anything over `limit_mb` is fetched. If this process is
        killed meanwhile the marker stays, and the next start makes the environment anew (quick: pip caches).
        """
        command = [str(self.program("python")), "-m", "pip", "install", "--disable-pip-version-check"]
        command += ["--no-input", "--progress-bar", "off", "-c", str(self.constraints), *arguments]
        environment = {**os.environ, "PIP_USER": "0", **(variables or {})}
        self.marker.touch()
        with self.log.open("a", encoding="utf-8") as log:
            code, last_error = follow(command, environment, log, limit_mb, self.progress)
        self.marker.unlink()
        if code != 0:
            raise PipError(f"pip failed: {last_error}", f"Its whole output: {self.log}")


def follow(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: TextIO,
    limit_mb: float | None,
    progress: Progress,
) -> tuple[int, str]:
    """Runs pip, copies its output to `log`, tells what it does; returns exit code and last error line."""
    log.write(f"\n$ {' '.join(command)}\n")
    last_error = "no reason given"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            log.flush()
            if words := pip_words(line):
                progress.detail(words)
            if "error" in line.lower():
                last_error = line.strip()
            name, size_mb = download_mb(line) or ("", 0.0)
            if limit_mb is not None and size_mb > limit_mb:
                process.kill()
                raise TooLargeError(
                    f"{name} is a download of {size_words(size_mb)}.", "Install it by hand if you want it."
                )
            if size_mb >= WORTH_TELLING_MB:
                progress.say(f"  downloading {name} ({size_words(size_mb)})")
    return process.returncode, last_error
