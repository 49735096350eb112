#!/usr/bin/env python3
"""From a fresh clone to a running ebbtide: `start.py chat` or `start.py test`; needs nothing but Python.

The first call makes `.venv` in this checkout and installs into it; later calls start at once. Arguments after
the command go to `ebbtide` or to pytest. This file must still parse on a Python that is too old.
"""

from __future__ import annotations

import os
import sys

OLDEST_PYTHON = (3, 11)
USAGE = "usage: python3 packaging/start.py {chat,test} [arguments for ebbtide or pytest]"


def check_python(version: tuple[int, ...]) -> None:
    """Ends the program with an explanation when `version` is older than ebbtide supports."""
    if version[:2] < OLDEST_PYTHON:
        found, need = ".".join(map(str, version[:2])), ".".join(map(str, OLDEST_PYTHON))
        sys.exit(
            f"ebbtide needs Python {need} or newer; this is Python {found}.\nRun it with a newer python3."
        )


def launch(command: list[str]) -> int:
    """Becomes `command`; on Windows, which has no real exec, runs it and returns its exit code."""
    sys.stderr.flush()
    if sys.platform == "win32":
        import subprocess

        return subprocess.call(command)
    os.execv(command[0], command)


def main(arguments: list[str]) -> int:
    """Sets up what is missing, then hands over; returns an exit code only when it could not hand over."""
    check_python(sys.version_info[:3])
    if arguments[:1] not in (["chat"], ["test"]):
        print(USAGE, file=sys.stderr)
        return 0 if arguments[:1] in (["-h"], ["--help"]) else 2
    import setup_steps

    try:
        venv = setup_steps.prepare(with_tests=arguments[0] == "test")
    except setup_steps.SetupError as error:
        print(f"error: {error.what}\n{error.remedy}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on from here.", file=sys.stderr)
        return 130
    if arguments[0] == "chat":
        return launch([str(venv.program("ebbtide")), *arguments[1:]])
    os.chdir(setup_steps.ROOT)
    return launch([str(venv.program("python")), "-m", "pytest", *arguments[1:]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
