"""Messages as people read them: sentences, which begin with a capital letter and end with a full stop."""

import re

from ebbtide.app.safe_text import safe_line
from ebbtide.engine.errors import EbbtideError

_ENDS = (".", "!", "?", "…", ":")
_WORD = re.compile(r"(?!ebbtide\b)[a-z][a-z']*(?=[ ,;]|:(?=\s|$)|$)")
"""An ordinary word; a file's name has a dot, a flag begins with dashes, a quotation with its mark, and the
name of a card (cuda:0) goes on behind its colon."""


def sentence(text: str) -> str:
    """`the disk is full` -> `The disk is full`."""
    return text[0].upper() + text[1:] if _WORD.match(text) else text


def statement(text: str) -> str:
    """As `sentence`, on one line, with its full stop."""
    text = sentence(safe_line(text))
    return text if not text or text.endswith(_ENDS) else f"{text}."


def in_two_lines(error: EbbtideError) -> str:
    """What is wrong, and what to do; the latter may end with something to be typed, and gets no full stop."""
    return f"{statement(str(error))}\n{sentence(safe_line(error.hint))}"
