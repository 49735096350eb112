"""Whether runs that should be alike were, for notes on what was measured."""

from collections.abc import Iterator, Mapping, Sequence

STEADY = 1.5
"""Most to least, of runs on a machine that does nothing else."""


def unsteadiness(values: Sequence[float]) -> float:
    """How many times the least the most is. 1 where there is nothing to compare."""
    return max(values) / min(values) if values and min(values) > 0 else 1.0


def steadiness_notes(measures: Mapping[str, Sequence[float]], who: str = "") -> Iterator[str]:
    """One sentence where runs differed much: of the measure that did most, with what was seen, not why.

    `measures`: name -> speeds of its runs; `who` ran them.
    """
    worst = max(measures, key=lambda name: unsteadiness(measures[name]), default=None)
    if worst is None or (times := unsteadiness(measures[worst])) <= STEADY:
        return
    whose = f" of {who}" if who else ""
    yield f"Runs of {worst}{whose} differ by up to {times:.1f} times: its figures are uncertain."
