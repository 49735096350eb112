"""Where every byte is: the engine's process and the machine, split into parts that have names."""

from typing import NamedTuple

from ebbtide.app.chat_text import MemoryPart, memory_parts
from ebbtide.engine.messages import Machine, Memory

HATCH = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"
"""Memory that is not the budget's."""


class ProcessAccount(NamedTuple):
    """What is counted as the engine's, split: process = ledger + spare + runtime - untouched.

    On a card the driver counts, elsewhere the system. Where the driver does not tell programs apart, it is
    all that is taken of the card (`with_others`), and runtime is theirs too.
    """

    process_bytes: int
    ledger_bytes: int
    spare_bytes: int
    """Free pages of the budget that are still held from the system."""
    runtime_bytes: int
    """Interpreter, libraries and their buffers: all that the ledger does not know."""
    untouched_bytes: int
    """Reserved in the ledger, but never written to and so not counted by the system."""
    with_others: bool = False


def process_account(memory: Memory, machine: Machine | None, spare_bytes: int) -> ProcessAccount | None:
    """None until the system has said how large the process is."""
    counted, with_others = _counted(machine)
    if counted is None:
        return None
    ledger = memory.budget_bytes - memory.free_bytes
    beyond = counted - ledger
    spare = min(spare_bytes, max(beyond, 0))
    return ProcessAccount(counted, ledger, spare, max(beyond - spare, 0), max(-beyond, 0), with_others)


def _counted(machine: Machine | None) -> tuple[int | None, bool]:
    """(bytes of the engine where the model is, whether others' are in them)."""
    if machine is None:
        return None, False
    if not machine.card:
        return machine.process_bytes, False
    if machine.card_own_bytes is not None:
        return machine.card_own_bytes, False
    if machine.card_total_bytes is None or machine.card_free_bytes is None:
        return None, False
    return machine.card_total_bytes - machine.card_free_bytes, True


def engine_parts(memory: Memory, account: ProcessAccount | None) -> list[MemoryPart]:
    """The budget's parts, and beside it the runtime; free last."""
    *used, free = memory_parts(memory)
    word = "others" if account is not None and account.with_others else "runtime"
    runtime = MemoryPart("runtime", HATCH, word, account.runtime_bytes if account is not None else 0)
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


def card_parts(machine: Machine | None) -> list[MemoryPart]:
    """All memory of the card that the model is on: ebbtide + others + free = total. Empty without a card, or
    where nobody says how much is free.
    """
    if machine is None or machine.card_total_bytes is None or machine.card_free_bytes is None:
        return []
    taken = machine.card_total_bytes - machine.card_free_bytes
    free = MemoryPart("free", "·", "free", machine.card_free_bytes)
    if machine.card_own_bytes is None:
        return [MemoryPart("other", HATCH, "taken", taken), free]
    own = min(machine.card_own_bytes, taken)
    return [
        MemoryPart("engine", "▓", "ebbtide", own),
        MemoryPart("other", HATCH, "other programs", taken - own),
        free,
    ]
