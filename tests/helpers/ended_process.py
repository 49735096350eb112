"""A writer of the chat store that has gone."""

import subprocess
import sys


def ended_process() -> str:
    """The name (`this_process`) of a process that ran and has ended."""
    code = "from ebbtide.app.store import this_process; print(this_process())"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
