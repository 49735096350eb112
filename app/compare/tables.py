"""A comparison for people: a table with a small chart for the terminal, and a table to paste."""

import sys
from typing import Any

from ebbtide.app.compare.result import INTERVAL, RANGE
from ebbtide.app.compare.rows import Row, foot_lines, head_lines, rows_of
from ebbtide.app.compare.rows import figure as figure_of

INTERVAL_WORDS = {INTERVAL: "95 % interval", RANGE: "least to most"}
BAR_CELLS = 40
MEANING = "Medians of all pairs (least to most). Ratio: ebbtide / llama.cpp, the median of the pairs' own."
TOO_FEW = "So few pairs tell no 95 % interval of the ratio; --runs 6 or more do."


def as_text(result: dict[str, Any]) -> str:
    rows = [_head(result), *rows_of(result)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(f"{row[column]:<{widths[column]}}" for column in range(4)).rstrip() for row in rows]
    parts = [
        head_lines(result),
        lines,
        chart(rows_of(result), _full_cell()),
        [*_meaning(result), *foot_lines(result)],
    ]
    return "\n\n".join("\n".join(part) for part in parts)


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
