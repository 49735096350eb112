"""The figures of a comparison in rows, for every kind of table."""

from typing import Any, NamedTuple

from ebbtide.app.safe_text import safe_line
from ebbtide.engine.sizes import format_bytes

NOTHING = "-"
PEAK = (
    "Peak memory is all that a process had resident, pages of shared files too; a limit counts such a page "
    "once, for whoever read it first."
)


class Row(NamedTuple):
    """One measure in words; `values` are both medians, None where there is none."""

    name: str
    ours: str
    theirs: str
    ratio: str
    values: tuple[float, float | None] = (0.0, None)
    unit: str = ""


def rows_of(result: dict[str, Any]) -> list[Row]:
    ours, theirs = result["ebbtide"], result["llama_cpp"]

    def row(name: str, unit: str, key: str, count: str = "") -> Row:
        stem = key.removesuffix("_tok_s").removesuffix("_s")
        ratio, interval = (result[f"{stem}_ratio{end}"] for end in ("", "_interval"))
        spreads = ours[key], theirs[key]
        if count:
            ratio, interval = ratio[count], interval[count]
            spreads = spreads[0][count], (spreads[1] or {}).get(count)
        words = NOTHING if ratio is None else _times(ratio, interval)
        medians = spreads[0]["median"], spreads[1]["median"] if spreads[1] else None
        return Row(name, _spread(spreads[0], unit), _spread(spreads[1], unit), words, medians, unit)

    first = f"first token of {result['first_token_prompt']}"
    return [
        row("decode", "tok/s", "decode_tok_s"),
        *(row(f"prefill {count}", "tok/s", "prefill_tok_s", count) for count in ours["prefill_tok_s"]),
        row(first, "s", "first_token_s"),
        Row("peak memory", _peak(ours), _peak(theirs), ""),
    ]


def _peak(side: dict[str, Any]) -> str:
    peak = side["memory"]["process_peak_bytes"]
    return format_bytes(peak) if peak else NOTHING


def _times(ratio: float, interval: list[float]) -> str:
    return f"{ratio:.2f}x ({interval[0]:.2f} to {interval[1]:.2f})"


def figure(value: float) -> str:
    """Three digits that count."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def _spread(spread: dict[str, Any] | None, unit: str) -> str:
    if spread is None:
        return NOTHING
    ends = f"{figure(spread['min'])} to {figure(spread['max'])}"
    return f"{figure(spread['median'])} {unit} ({ends})"


def head_lines(result: dict[str, Any]) -> list[str]:
    """Model and machine."""
    machine, settings = result["machine"], result["ebbtide"]["configuration"]
    limit = result["memory_limit_bytes"]
    parts = [
        safe_line(machine["cpu"]),
        f"{settings['threads']} threads",
        f"context {settings['ctx']}",
        f"{result['runs']} pair{'s' if result['runs'] != 1 else ''}",
        *([f"memory limit {format_bytes(limit)}"] if limit else []),
    ]
    return [f"{safe_line(result['model'])}, {format_bytes(result['model_bytes'])}", ", ".join(parts)]


def foot_lines(result: dict[str, Any]) -> list[str]:
    """Both configurations, what failed, notes, and the command."""
    ours, theirs = result["ebbtide"]["configuration"], result["llama_cpp"]
    budget = format_bytes(ours["budget_bytes"])
    lines = [f"ebbtide {ours['version']}: instruction set {ours['isa']}, budget {budget}, exact"]
    ran = theirs["configuration"]
    what = f"llama.cpp (llama-cpp-python {theirs['version'] or 'of unknown version'})"
    if ran is None:
        lines.append(f"{what}: no configuration worked, so there is nothing to compare with")
    else:
        features = " ".join(ran.get("features", []))
        lines.append(f"{what}: {ran['name']}" + (f"; built with {features}" if features else ""))
    for failure in theirs["failures"]:
        lines.append(f"llama.cpp, {failure['configuration']}: {failure['failure']}")
    lines += _limit_lines(result)
    return [*lines, *result["notes"], f"Again: {safe_line(result['command'])}"]


def _limit_lines(result: dict[str, Any]) -> list[str]:
    """What figures inside a limit depend on: only there a model is read from the disk again and again."""
    if not result["memory_limit_bytes"]:
        return []
    lines, nbytes = [PEAK], result["read_ahead_bytes"]
    if nbytes is not None:
        ahead = format_bytes(nbytes)
        lines.append(f"The model's disk reads ahead {ahead}: llama.cpp's speed with mmap depends on it.")
    return lines
