"""Sizes in words, the same in every message: powers of 1024, as `--budget 459MiB` counts them."""

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB")


def format_bytes(count: float) -> str:
    """A size a person reads at a glance: "459 MiB", "1.2 GiB"."""
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 999.5:
            whole = unit in ("B", "KiB") or abs(value) >= 99.5
            return f"{value:.0f} {unit}" if whole else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def adding_up(parts: Sequence[float], whole: int) -> list[int]:
    """Whole numbers beside `parts`, none negative, with the sum `whole`: a reader can add them up.

    The largest remainders are rounded up. Where the parts' own sum is not about `whole`, each is rounded by
    itself.
    """
    found = [int(part) for part in parts]
    missing = whole - sum(found)
    if not 0 <= missing <= len(found):
        return [round(part) for part in parts]
    by_remainder = sorted(range(len(found)), key=lambda index: found[index] - parts[index])
    for index in by_remainder[:missing]:
        found[index] += 1
    return found
