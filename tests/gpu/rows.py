"""What the check of a card finds: rows of one table, and the same as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

HEAD = ("part", "case", "figure", "unit", "goal", "verdict")
TIME_TAKEN = "time taken"
"""The last row of every part."""
_NUMBERS = 2
"""The column that is aligned to the right."""


@dataclass(frozen=True)
class Row:
    """One figure. `passed` None = nothing was to be reached, it is only told."""

    part: str
    case: str
    figure: float | None = None
    unit: str = ""
    goal: str = ""
    passed: bool | None = None
    note: str = ""
    """What else is worth a word, in the table too."""
    trace: str = ""
    """The whole traceback of a failure, in the JSON only."""

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "FAILED", None: "-"}[self.passed]


def table(rows: Sequence[Row]) -> str:
    """Plain text, a line a row; notes come behind the verdict."""
    cells = [
        HEAD,
        *((row.part, row.case, shown(row.figure), row.unit, row.goal, row.verdict) for row in rows),
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    notes = ["", *(row.note for row in rows)]
    return "\n".join(_line(line, widths, note) for line, note in zip(cells, notes, strict=True))


def shown(figure: float | None) -> str:
    """Four digits that count; whole numbers as they are."""
    if figure is None:
        return ""
    return f"{figure:.0f}" if abs(figure) >= 1000 or figure == int(figure) else f"{figure:.4g}"


def progress(row: Row) -> str:
    """A line for who waits."""
    words = (f"{row.part}: {row.case}:", shown(row.figure), row.unit, row.verdict, row.note)
    return " ".join(word for word in words if word)


def as_json(rows: Sequence[Row], *, dry: bool, seed: int, seconds: float) -> dict[str, Any]:
    """The object that `--json` writes."""
    return {
        "dry_run": dry,
        "seed": seed,
        "seconds": round(seconds, 1),
        "passed": all(row.passed is not False for row in rows),
        "rows": [{**asdict(row), "verdict": row.verdict} for row in rows],
    }


def _line(cells: Sequence[str], widths: Sequence[int], note: str) -> str:
    padded = (
        cell.rjust(width) if column == _NUMBERS else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return f"{'  '.join(padded)}  {note}".rstrip()
