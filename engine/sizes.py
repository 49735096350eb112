"""Sizes in words, the same in every message: powers of 1024, as `--budget 459MiB` counts them."""

from collections.abc import Sequence

_UNITS = ("B", "KiB", "MiB", "GiB")
MIB, GIB = 1 << 20, 1 << 30


def format_bytes(count: float) -> str:
    """A size a person reads at a glance: "459 MiB", "1.2 GiB"."""
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 999.5:
            whole = unit in ("B", "KiB") or abs(value) >= 99.5
            return f"{value:.0f} {unit}" if whole else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def whole_mib(nbytes: int) -> int:
    """MiB, rounded up so that a size that is quoted back is enough."""
    return -(-nbytes // MIB)


def mib_words(nbytes: int) -> str:
    """An exact size in a sentence, rounded up, so that what is needed is enough: "2,736 MiB"."""
    return f"{whole_mib(nbytes):,} MiB"


def mib_there(nbytes: int) -> str:
    """The size of what is there, beside what is needed: rounded down, so that too little reads as less."""
    return f"{nbytes // MIB:,} MiB"


def mib_about(nbytes: int) -> str:
    """The same size as `format_bytes` tells, in the unit of sizes that are needed."""
    return f"{round(nbytes / MIB):,} MiB"


def too_much_words(wanted_bytes: int, there_bytes: int) -> tuple[str, str]:
    """What is wanted and the less that is there: at a glance, or in MiB where that reads the same."""
    wanted, there = format_bytes(wanted_bytes), format_bytes(there_bytes)
    return (wanted, there) if wanted != there else (mib_words(wanted_bytes), mib_there(there_bytes))


def mib_typed(nbytes: int) -> str:
    """The same as it is typed behind a flag of a command line, in one word: "2736MiB"."""
    return f"{whole_mib(nbytes)}MiB"


def size_typed(nbytes: int) -> str:
    """As `format_bytes`, as it is typed behind a flag: "20.6GiB"."""
    return format_bytes(nbytes).replace(" ", "").replace(",", "")


def unit_for(largest: int) -> tuple[int, str, int]:
    """(bytes, name, digits) of the one unit in which a row of sizes is written."""
    return (GIB, "GiB", 1) if largest >= 10 * GIB else (MIB, "MiB", 0)


def in_unit(nbytes: int, unit_bytes: int, digits: int) -> str:
    """The figure alone: "2,736"."""
    return f"{nbytes / unit_bytes:,.{digits}f}"


def budget_words(nbytes: int) -> str:
    """A budget that is in use, as the memory bar has it: "323 MiB"; what is needed is rounded up instead."""
    unit_bytes, unit, digits = unit_for(nbytes)
    return f"{in_unit(nbytes, unit_bytes, digits)} {unit}"


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
