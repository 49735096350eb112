"""Between which values sampling makes sense: for flags, settings and presets."""

from collections.abc import Mapping
from typing import Any

RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 10),
    "top_k": (0, 2**31 - 1),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repeat_penalty": (0.1, 10),
    "seed": (0, 2**63 - 1),
}


def check_ranges(values: Mapping[str, Any]) -> None:
    """Raise ValueError naming the first value that is in no range (NaN is in none); None is not looked at."""
    for name, (least, most) in RANGES.items():
        value = values.get(name)
        if value is not None and not least <= value <= most:
            raise ValueError(f"{name} = {value:g} is not between {least:,} and {most:,}")
