"""Lines for people that end between words on a terminal; into a pipe or a file they go as they are."""

import os
import re
from typing import TextIO

HANG_CELLS = 2
UNKNOWN_COLUMNS = 80
"""Of a terminal that does not tell its width."""
_COLUMN = re.compile(r"\S {2,}(?=\S)")
"""Two spaces stand between the columns of a table, and nowhere else."""


def columns_of(stream: TextIO) -> int | None:
    """Cells in a line of the terminal behind `stream`, now; None where it is none."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or UNKNOWN_COLUMNS
    except (OSError, ValueError):
        return UNKNOWN_COLUMNS


def write_folded(stream: TextIO, text: str, hang: int | None = None) -> None:
    """Write lines; what is too long for the terminal goes on below, `hang` cells from its edge."""
    columns = columns_of(stream)
    for line in text.split("\n"):
        stream.write((line if columns is None else fold(line, columns, hang)) + "\n")
    stream.flush()


def fold(line: str, columns: int, hang: int | None = None) -> str:
    """`line` in lines of at most so many cells, unless a word alone is longer: a path stays in one piece.

    `hang` None: under its last column in a table, else under its indentation, or two cells in.
    """
    from rich.cells import cell_len  # most lines are short, and the start does not wait for it

    if len(line) <= columns // 2 or cell_len(line) <= columns:
        return line
    indent = " " * (_hang(line, columns) if hang is None else hang)
    lines, current = [], ""
    for spaces, word in re.findall(r"(\s*)(\S+)", line):
        if current.strip() and cell_len(current) + len(spaces) + cell_len(word) > columns:
            lines.append(current)
            current = indent + word
        else:
            current += spaces + word
    return "\n".join([*lines, current])


def _hang(line: str, columns: int) -> int:
    ends = [match.end() for match in _COLUMN.finditer(line)]
    if ends and ends[-1] <= columns // 2:
        return ends[-1]
    return len(line) - len(line.lstrip()) or HANG_CELLS
