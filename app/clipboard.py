"""Copies text to a clipboard by the best way there is, and says no more about it than is known.

A program of the desktop or tmux confirms that it has the text. A terminal that is asked with OSC 52 confirms
nothing: it may not know the sequence, be told to ignore it, or sit behind a tmux that drops it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from ebbtide.app.remote import is_remote
from ebbtide.app.safe_text import safe

TOOL_WAIT_S = 2.0
LARGE_BYTES = 70_000
"""Many terminals take no longer OSC 52 sequence than about 100 kB of base64."""

Run = Callable[[Sequence[str], bytes], bool]
"""Runs a command with this input; True when it ended well."""


def run_tool(command: Sequence[str], data: bytes) -> bool:
    """Its output goes nowhere: a clipboard program that stays in the background would keep a pipe open."""
    try:
        done = subprocess.run(
            command,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TOOL_WAIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def copy(
    text: str,
    send_to_terminal: Callable[[str], None],
    *,
    run: Run = run_tool,
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
) -> str:
    """Copy `text` without control characters; returns what happened, in words for a person."""
    text = safe(text)
    data, amount = text.encode(), amount_of(text)
    if environment.get("TMUX") and run(["tmux", "load-buffer", "-w", "-"], data):
        return f"{amount} in tmux's buffer, and sent on to the terminal."
    # Over SSH a desktop's program here would fill the wrong machine's clipboard.
    if not is_remote(environment):
        command = desktop_tool(environment, platform, which)
        if command and run(command, data):
            return f"Copied {amount}."
    send_to_terminal(text)
    doubt = "many terminals refuse that much" if len(data) > LARGE_BYTES else "it does not say if it took it"
    return f"Sent {amount} to the terminal; {doubt}."


def desktop_tool(
    environment: Mapping[str, str], platform: str, which: Callable[[str], str | None]
) -> list[str]:
    """The program that fills the clipboard of this desktop; empty if there is none."""
    tools: list[list[str]] = []
    if platform == "darwin":
        tools.append(["pbcopy"])
    if environment.get("WAYLAND_DISPLAY"):
        tools.append(["wl-copy"])
    if environment.get("DISPLAY"):
        tools += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return next((tool for tool in tools if which(tool[0])), [])


def amount_of(text: str) -> str:
    """ "1,204 lines" or "12 characters"."""
    lines = len(text.splitlines())
    if lines > 1:
        return f"{lines:,} lines"
    return f"{len(text):,} character{'' if len(text) == 1 else 's'}"
