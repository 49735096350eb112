"""Hints that the engine gives for the command line, in the words of the chat screen."""

import re

_FLAG = re.compile(r"--(budget|ctx)\b")


def in_chat(hint: str) -> str:
    """ "Give --budget 459MiB or more." -> "Give /budget 459MiB or more." """
    return _FLAG.sub(r"/\1", hint)
