"""A comparison for people: a table with a small chart for the terminal, and a table to paste."""

import sys
from collections.abc import Sequence
from typing import Any

from ebbtide.app.compare.result import INTERVAL, RANGE
from ebbtide.app.compare.rows import Row, foot_lines, head_lines, rows_of
from ebbtide.app.compare.rows import figure as figure_of

INTERVAL_WORDS = {INTERVAL: "95 % interval", RANGE: "least to most"}
BAR_CELLS = 40
BESIDE_BAR_CELLS = 20
"""Name and figure."""
MEANING = "Medians of all pairs (least to most). Ratio: ebbtide / llama.cpp, the median of the pairs' own."
TOO_FEW = "So few pairs tell no 95 % interval of the ratio; --runs 6 or more do."


def as_text(result: dict[str, Any], columns: int | None = None) -> str:
    """All of it; the table and the chart fit a terminal of so many `columns`, other lines may be longer."""
    rows = rows_of(result)
    table = table_lines([_head(result), *rows], columns)
    bars = chart(rows, _full_cell(), columns)
    parts = [head_lines(result), table, bars, [*_meaning(result), *foot_lines(result)]]
    return "\n\n".join("\n".join(part) for part in parts)


def table_lines(rows: Sequence[Row], columns: int | None) -> list[str]:
    """A row a measure, below the headings, which are the first of `rows`.

    Where that is too wide, what is in brackets goes below what it belongs to; at worst it is a row a figure.
    """
    for shape in (_wide, _two_storied):
        lines = _aligned(shape(rows))
        if columns is None or max(map(len, lines)) <= columns:
            return lines
    return _stacked(rows)


def _wide(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    return [row[:4] for row in rows]


def _two_storied(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    cells = []
    for row in rows:
        above, below = zip(*map(_storeys, row[1:4]), strict=True)
        cells.append((row.name, *above))
        cells += [("", *below)] if any(below) else []
    return cells


def _storeys(cell: str) -> tuple[str, str]:
    """`3.35x (1.53 to 5.17)` in two."""
    above, bracket, below = cell.partition(" (")
    return above, bracket[1:] + below


def _stacked(rows: Sequence[Row]) -> list[str]:
    lines = []
    heads = [_storeys(head)[0] for head in rows[0][1:4]]
    for row in rows[1:]:
        lines.append(row.name)
        lines += _aligned([(f"  {head}", cell) for head, cell in zip(heads, row[1:4], strict=True) if cell])
    return lines


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{widths[n]}}" for n, cell in enumerate(row)).rstrip() for row in rows]


def as_markdown(result: dict[str, Any]) -> str:
    name, machine = head_lines(result)
    titles = _head(result)
    head = f"| | {titles.ours} | {titles.theirs} | {titles.ratio} |\n|---|---|---|---|"
    rows = ["| " + " | ".join(_cell(part) for part in row[:4]) + " |" for row in rows_of(result)]
    *foot, command = foot_lines(result)
    lines = [*_meaning(result), *foot]
    listed = "\n".join(f"- {_cell(line)}" for line in lines)
    again = f"    {command.removeprefix('Again: ')}"
    return f"**{_cell(name)}** on {_cell(machine)}\n\n{head}\n" + "\n".join(rows) + f"\n\n{listed}\n\n{again}"


def _head(result: dict[str, Any]) -> Row:
    return Row("", "ebbtide", "llama.cpp", f"ratio ({INTERVAL_WORDS[result['interval_kind']]})")


def _meaning(result: dict[str, Any]) -> list[str]:
    few = result["interval_kind"] == RANGE and result["decode_ratio"] is not None
    return [MEANING, *([TOO_FEW] if few else [])]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def chart(rows: list[Row], cell: str, columns: int | None = None) -> list[str]:
    """Two bars a measure, the longer one with all the room."""
    cells = BAR_CELLS if columns is None else max(1, min(BAR_CELLS, columns - BESIDE_BAR_CELLS))
    lines = []
    for row in rows:
        ours, theirs = row.values
        if theirs is None:
            continue
        longest = max(ours, theirs, 1e-12)
        better = "less is better" if row.unit == "s" else "more is better"
        lines.append(f"{row.name}, {row.unit} ({better})")
        for name, value in (("ebbtide", ours), ("llama.cpp", theirs)):
            bar = cell * max(1, round(cells * value / longest))
            lines.append(f"  {name:<10} {bar} {figure_of(value)}")
    return lines or ["Nothing to draw: only one contender ran."]


def _full_cell() -> str:
    """A block where the output can write one."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return "█" if encoding == "utf8" else "#"
