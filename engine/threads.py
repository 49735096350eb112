"""How many threads compute where nobody says: measured once on a machine and kept, counted where few can run.

A count is kept for a machine, not for a model. Not handled: weights lie on the memory node of the thread that
read them, and threads are not bound to processors or nodes; so what is measured on a machine with several
nodes is what a model gets, which is less than it would get from weights that are spread. Nor does anybody
measure again when the machine has other work later: without `threads.json` in the cache folder the next load
does.
"""

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ebbtide.engine.processors import Processors, cpu_name, find_processors
from ebbtide.kernels.dispatch import IsaChoice, chosen_isa

FILE_NAME = "threads.json"
FEW_PROCESSORS = 2
"""With no more, there is nothing to choose between that is worth measuring."""
_VERSION = 1
"""Of the measurement: counts that another one found are not used."""

Measure = Callable[[str, Processors], int | None]


class DefaultThreads(NamedTuple):
    """How many, and how that was found."""

    threads: int
    measured: bool
    to_measure: bool
    """The next load will."""


def usable_threads() -> int:
    """Threads that can run at the same time: processors that this process may use, and a quota grants."""
    return find_processors().usable


def default_threads(isa: IsaChoice, cache: Path | None, measure: Measure | None = None) -> int:
    """The count for `--threads 0` on `isa`, measured now if it is not known yet, and kept in `cache` then.

    Without `cache`, and where it cannot be measured: physical cores, as hyper-threads share the vector units
    that the kernels fill. Raises ValueError as `pick` does.
    """
    here = find_processors()
    known = known_threads(isa, cache, here)
    if not known.to_measure or cache is None:
        return known.threads
    chosen = chosen_isa(isa)
    count = (measure or _measure)(chosen, here)
    if count is None:
        return known.threads
    _keep(cache / FILE_NAME, _machine(chosen, here), count)
    return count


def known_threads(isa: IsaChoice, cache: Path | None, here: Processors | None = None) -> DefaultThreads:
    """The same without measuring."""
    here = here or find_processors()
    counted = min(here.cores, here.usable)
    chosen = chosen_isa(isa)
    if here.usable <= FEW_PROCESSORS or chosen == "reference" or cache is None:
        return DefaultThreads(counted, measured=False, to_measure=False)
    kept = _read(cache / FILE_NAME).get(_machine(chosen, here), 0)
    if 1 <= kept <= here.usable:
        return DefaultThreads(kept, measured=True, to_measure=False)
    return DefaultThreads(counted, measured=False, to_measure=True)


def _measure(isa: str, here: Processors) -> int | None:
    from ebbtide.engine.thread_choice import measure_threads  # most loads know the count

    return measure_threads(isa, here)


def _machine(isa: str, here: Processors) -> str:
    """All that a count depends on. A folder may be shared by machines, and a machine by limits."""
    quota = "none" if here.quota is None else here.quota
    kinds = f"{here.allowed} threads, {here.cores} cores, {here.fast_cores} fast, quota {quota}"
    return f"{_VERSION}: {cpu_name()}, {isa}, {kinds}"


def _read(file: Path) -> dict[str, int]:
    """Machine -> count; empty where the file is missing or odd."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {machine: count for machine, count in found.items() if type(count) is int}


def _keep(file: Path, machine: str, count: int) -> None:
    """Written beside and moved: a reader sees the old file or the new one. What cannot be kept is measured
    again by the next load.
    """
    text = json.dumps({**_read(file), machine: count}, indent=1)
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, "utf-8")
        part.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
