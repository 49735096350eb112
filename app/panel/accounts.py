"""Where every byte is: the engine's process and the machine, split into parts that have names."""

from typing import NamedTuple

from ebbtide.app.chat_text import MemoryPart, memory_parts
from ebbtide.engine.messages import Machine, Memory

HATCH = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"
"""Memory that is not the budget's."""


class ProcessAccount(NamedTuple):
    """What the system counts as the engine's, split: process = ledger + spare + runtime - untouched."""

    process_bytes: int
    ledger_bytes: int
    spare_bytes: int
    """Free pages of the budget that are still held from the system."""
    runtime_bytes: int
    """Interpreter, libraries and their buffers: all that the ledger does not know."""
    untouched_bytes: int
    """Reserved in the ledger, but never written to and so not counted by the system."""


def process_account(memory: Memory, machine: Machine | None, spare_bytes: int) -> ProcessAccount | None:
    """None until the system has said how large the process is."""
    if machine is None or machine.process_bytes is None:
        return None
    ledger = memory.budget_bytes - memory.free_bytes
    beyond = machine.process_bytes - ledger
    spare = min(spare_bytes, max(beyond, 0))
    return ProcessAccount(machine.process_bytes, ledger, spare, max(beyond - spare, 0), max(-beyond, 0))


def engine_parts(memory: Memory, account: ProcessAccount | None) -> list[MemoryPart]:
    """The budget's parts, and beside it the runtime; free last."""
    *used, free = memory_parts(memory)
    runtime = MemoryPart("runtime", HATCH, "runtime", account.runtime_bytes if account is not None else 0)
    return [*used, runtime, free]


def machine_parts(machine: Machine | None) -> list[MemoryPart]:
    """All memory of the machine: engine + app + other programs + free = total. Empty when not known."""
    if machine is None or machine.total_bytes is None or machine.available_bytes is None:
        return []
    engine, app = machine.process_bytes or 0, machine.app_bytes or 0
    other = max(machine.total_bytes - machine.available_bytes - engine - app, 0)
    return [
        MemoryPart("engine", "▓", "ebbtide", engine),
        MemoryPart("app", "░", "app", app),
        MemoryPart("other", HATCH, "other programs", other),
        MemoryPart("free", "·", "free", machine.available_bytes),
    ]
