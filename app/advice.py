"""Hints that the engine gives for the command line, in the words of the chat screen."""

import re

_FLAG = re.compile(r"--(budget|ctx)\b(?: (\d+)MiB\b)?")


def in_chat(hint: str) -> str:
    """ "Give --budget 2736MiB or more." -> "Give /budget 2,736 MiB or more.": a command takes spaces."""
    return _FLAG.sub(_command, hint)


def _command(flag: re.Match[str]) -> str:
    return f"/{flag[1]}" + (f" {int(flag[2]):,} MiB" if flag[2] else "")
