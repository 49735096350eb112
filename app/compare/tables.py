"""A comparison for people: a table with a small chart for the terminal, and a table to paste."""

import sys
from typing import Any

from ebbtide.app.compare.rows import Row, foot_lines, head_lines, rows_of
from ebbtide.app.compare.rows import figure as figure_of

HEAD = Row("", "ebbtide", "llama.cpp", "ratio (95 % interval)")
BAR_CELLS = 40
MEANING = "Medians of all pairs (least to most). Ratio: ebbtide / llama.cpp, the median of the pairs' own."


def as_text(result: dict[str, Any]) -> str:
    rows = [HEAD, *rows_of(result)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(f"{row[column]:<{widths[column]}}" for column in range(4)).rstrip() for row in rows]
    parts = [head_lines(result), lines, chart(rows_of(result), _full_cell()), [MEANING, *foot_lines(result)]]
    return "\n\n".join("\n".join(part) for part in parts)


def as_markdown(result: dict[str, Any]) -> str:
    name, machine = head_lines(result)
    head = f"| | {HEAD.ours} | {HEAD.theirs} | {HEAD.ratio} |\n|---|---|---|---|"
    rows = ["| " + " | ".join(_cell(part) for part in row[:4]) + " |" for row in rows_of(result)]
    *foot, command = foot_lines(result)
    lines = [MEANING, *foot]
    listed = "\n".join(f"- {_cell(line)}" for line in lines)
    again = f"    {command.removeprefix('Again: ')}"
    return f"**{_cell(name)}** on {_cell(machine)}\n\n{head}\n" + "\n".join(rows) + f"\n\n{listed}\n\n{again}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def chart(rows: list[Row], cell: str) -> list[str]:
    """Two bars a measure, the longer one with all the room."""
    lines = []
    for row in rows:
        ours, theirs = row.values
        if theirs is None:
            continue
        longest = max(ours, theirs, 1e-12)
        better = "less is better" if row.unit == "s" else "more is better"
        lines.append(f"{row.name}, {row.unit} ({better})")
        for name, value in (("ebbtide", ours), ("llama.cpp", theirs)):
            bar = cell * max(1, round(BAR_CELLS * value / longest))
            lines.append(f"  {name:<10} {bar} {figure_of(value)}")
    return lines or ["Nothing to draw: only one contender ran."]


def _full_cell() -> str:
    """A block where the output can write one."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return "█" if encoding == "utf8" else "#"
