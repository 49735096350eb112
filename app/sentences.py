"""Messages of the engine as people read them: sentences begin with a capital letter."""

import re

_WORD = re.compile(r"(?!ebbtide\b)[a-z][a-z']*(?=[ ,;]|:(?=\s|$)|$)")
"""An ordinary word; a file's name has a dot, a flag begins with dashes, a quotation with its mark, and the
name of a card (cuda:0) goes on behind its colon."""


def sentence(text: str) -> str:
    """`the disk is full` -> `The disk is full`."""
    return text[0].upper() + text[1:] if _WORD.match(text) else text
