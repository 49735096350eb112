"""Which implementation of `Ops` runs: picked once, when an engine starts."""

from typing import Literal

from ebbtide.kernels.ops import Ops

IsaChoice = Literal["auto", "amx", "avx512", "avxvnni", "avx2", "portable", "reference"]


def pick(isa: IsaChoice = "auto", threads: int = 1) -> Ops:
    """The operations on `isa`; "auto" is the best this machine runs, torch where the library is missing.

    Raises ValueError, in words for a person, where this machine or this build has no such instruction set.
    """
    if threads < 1:
        raise ValueError(f"threads is {threads}, it must be 1 or more")
    chosen = chosen_isa(isa)
    if chosen == "reference":
        return _reference(threads)
    from ebbtide.kernels.cpu.ops import CpuOps

    return CpuOps(chosen, threads)


def chosen_isa(isa: IsaChoice) -> str:
    """The name of what `pick` takes. Raises ValueError as it does."""
    if isa == "reference":
        return isa
    from ebbtide.kernels.cpu.library import ISAS, best_isa

    try:
        best = best_isa()
    except OSError as error:
        if isa == "auto":
            return "reference"
        raise ValueError(f"the compiled kernels cannot be loaded: {error}") from error
    chosen = best if isa == "auto" else isa
    if chosen not in ISAS or ISAS.index(chosen) > ISAS.index(best):
        raise ValueError(f"{isa!r} cannot run here; the best is {best!r}")
    return chosen


def runnable_isas() -> list[str]:
    """What `chosen_isa` takes besides "auto" and "reference", the best first; none without the library."""
    from ebbtide.kernels.cpu.library import ISAS, best_isa

    try:
        return list(reversed(ISAS[: ISAS.index(best_isa()) + 1]))
    except OSError:
        return []


def _reference(threads: int) -> Ops:
    from ebbtide.kernels.reference.ops import ReferenceOps

    return ReferenceOps(threads)
