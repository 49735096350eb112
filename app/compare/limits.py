"""The same memory limit for both contenders, each in a cgroup of its own, where this machine permits it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ebbtide.app.memory_cgroup import LimitRefused, MemoryCgroup, drop_caches
from ebbtide.engine.memory.observed import observe
from ebbtide.engine.sizes import MIB, format_bytes

PROCESS_BYTES = 112 * MIB
"""What an engine takes beside its budget: interpreter, libraries, buffers for reading."""

NO_DROP = "The page cache cannot be dropped here: what is in it is free for both."

SHARED_BYTES = 64 * MIB
"""Programs' files that others have open too, and a limit counts elsewhere: seldom so much."""


@dataclass(frozen=True)
class Limits:
    """`ours` and `theirs` are None where there is no limit."""

    limit_bytes: int = 0
    ours: MemoryCgroup | None = None
    theirs: MemoryCgroup | None = None
    note: str = ""
    room_bytes: int | None = None
    """What `--budget auto` may take without the limit; None where the system does not say."""

    @property
    def budget(self) -> str | None:
        """What ebbtide may take inside the limit; None without one. A limit that leaves more than the machine
        has free is no reason to take more than that.
        """
        if self.ours is None:
            return None
        left = self.limit_bytes - PROCESS_BYTES
        fits = self.room_bytes is None or left < self.room_bytes
        return f"{max(left, MIB) // MIB}MiB" if fits else "auto"

    def leak(self, who: str, peak_bytes: int) -> str:
        """A sentence where a contender had much more resident than its limit; empty where not."""
        if self.ours is None or peak_bytes <= self.limit_bytes + SHARED_BYTES:
            return ""
        held = f"{format_bytes(peak_bytes)} resident inside a limit of {format_bytes(self.limit_bytes)}"
        return f"{who} had {held}: files that others hold in memory, such as the model, were free for it."

    def kills(self) -> int:
        """Processes of llama.cpp that the limit killed."""
        return self.theirs.kills() if self.theirs else 0


def inside(group: MemoryCgroup | None, command: Sequence[str]) -> list[str]:
    return group.wrap(command) if group else list(command)


@contextmanager
def memory_limits(limit_bytes: int | None) -> Iterator[Limits]:
    """Two cgroups of `limit_bytes` each, or a note why there are none. None = no limit is wanted."""
    if limit_bytes is None:
        yield Limits()
        return
    with ExitStack() as stack:
        try:
            ours, theirs = (
                stack.enter_context(MemoryCgroup(f"ebbtide-compare-{os.getpid()}-{who}", limit_bytes))
                for who in ("ebbtide", "llama")
            )
        except LimitRefused as refusal:
            wanted = format_bytes(limit_bytes)
            yield Limits(note=f"No limit of {wanted} can be set, so both run without: {refusal}.")
            return
        here = observe()
        notes = [] if drop_caches() else [NO_DROP]
        if 0 < here.whole_bytes <= limit_bytes:
            there = f"there are {format_bytes(here.whole_bytes)} of memory"
            notes.append(f"The limit of {format_bytes(limit_bytes)} limits nothing: {there}.")
        yield Limits(limit_bytes, ours, theirs, " ".join(notes), here.budget_room_bytes)
