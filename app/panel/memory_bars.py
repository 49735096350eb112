"""Where every byte is: the engine's memory and the machine's, as stacked bars with names and sizes."""

from typing import NamedTuple

from ebbtide.app.chat_text import MemoryPart, memory_parts
from ebbtide.app.panel.accounts import (
    ProcessAccount,
    card_parts,
    engine_parts,
    machine_parts,
    process_account,
)
from ebbtide.app.panel.canvas import Canvas
from ebbtide.app.panel.cell import LABEL, NONE, Row, blank, fill, text
from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.numbers import size, together
from ebbtide.app.safe_text import safe_line
from ebbtide.app.widgets.memory_bar import bar_cells
from ebbtide.engine.messages import Memory
from ebbtide.engine.sizes import in_unit, unit_for

NAME_CELLS = 8
LEAST_BAR = 16


def stacked(parts: list[MemoryPart], width: int) -> Row:
    """The bar itself; its patterns differ too, so that colour is not needed to tell parts apart."""
    row: Row = []
    for part, cells in zip(parts, bar_cells([part.nbytes for part in parts], width), strict=True):
        row += fill(part.name, part.fill, cells)
    return row[:width]


def legend(parts: list[MemoryPart], figures: list[str], gap: int = 2) -> Row:
    """Each part that is not empty: pattern, name, size."""
    row: Row = []
    for part, figure in zip(parts, figures, strict=True):
        if part.nbytes > 0:
            row += [*blank(gap if row else 0), *text(part.fill, part.name)]
            row += text(f" {part.word} {figure}", NONE)
    return row


class EngineMemory(NamedTuple):
    """What the engine's bars are drawn from: its parts and their figures, all in one unit. Those of the
    budget add up to `whole`; the runtime is beside it.
    """

    parts: list[MemoryPart]
    figures: list[str]
    unit: str
    used: str
    whole: str


class Bars(Canvas):
    """What the forms have in common: a sentence where there is no memory to show."""

    def __init__(self, feed: PanelFeed) -> None:
        super().__init__()
        self._feed = feed

    def rows(self, width: int, height: int) -> list[Row]:
        memory = self._feed.memory
        if memory is None:
            return [text("No model is loaded yet.", LABEL)]
        if not self._feed.alive:
            return [text("The engine has ended: no memory is in use.", LABEL)]
        return self._shown(self._engine(memory), width)

    def _engine(self, memory: Memory) -> EngineMemory:
        unit_bytes, unit, digits = unit_for(memory.budget_bytes)
        budget = memory_parts(memory)
        *sizes, used = together([part.nbytes for part in budget], memory.budget_bytes, unit_bytes, digits)
        figure = {part.name: size for part, size in zip(budget, sizes, strict=True)}
        parts = engine_parts(memory, self._account())
        return EngineMemory(
            parts,
            [figure.get(part.name) or in_unit(part.nbytes, unit_bytes, digits) for part in parts],
            unit,
            used,
            in_unit(memory.budget_bytes, unit_bytes, digits),
        )

    def _shown(self, engine: EngineMemory, width: int) -> list[Row]:
        raise NotImplementedError

    @property
    def on_card(self) -> bool:
        machine = self._feed.machine
        return machine is not None and bool(machine.card)

    def update(self) -> None:
        self.set_class(self.on_card, "-card")  # which has a row of its own
        super().update()

    def _account(self) -> ProcessAccount | None:
        """The process as the ledger and the system see it; None until both have said something."""
        memory, residency = self._feed.memory, self._feed.residency
        spare = residency.spare_bytes if residency is not None else 0
        return process_account(memory, self._feed.machine, spare) if memory is not None else None


class MemoryBars(Bars):
    """Four rows: the engine's bar, its legend, the machine's bar with legend, and how they reconcile; on a
    card, its own bar is a fifth.
    """

    def _shown(self, engine: EngineMemory, width: int) -> list[Row]:
        total = text(f"  {engine.used} of {engine.whole} {engine.unit}")
        bar = stacked(engine.parts, width - NAME_CELLS - len(total))
        return [
            [*text("memory".ljust(NAME_CELLS), LABEL), *bar, *total],
            *self._names(engine, width),
            *self._card(width),
            self._machine(width),
            self._reconciled(width),
        ]

    @staticmethod
    def _names(engine: EngineMemory, width: int) -> list[Row]:
        """The legend in a row below the bar, or in two where that is too long."""
        for gap in (2, 1):
            names = legend(engine.parts, engine.figures, gap)
            if len(names) + NAME_CELLS <= width:
                return [[*blank(NAME_CELLS), *names]]
        if len(names) <= width:
            return [names]
        half = len(engine.parts) // 2
        parts, figures = engine.parts, engine.figures
        return [legend(parts[:half], figures[:half], 1), legend(parts[half:], figures[half:], 1)]

    def _card(self, width: int) -> list[Row]:
        """The whole card, where the model is on one."""
        machine = self._feed.machine
        if machine is None or not machine.card:
            return []
        parts = card_parts(machine)
        name = f"{safe_line(machine.card)} "
        if not parts:
            return [text(f"{'card':{NAME_CELLS}}{name}, nobody says how much is free", LABEL)[:width]]
        return [self._whole("card", parts, width, name)]

    def _machine(self, width: int) -> Row:
        parts = machine_parts(self._feed.machine)
        if not parts:
            return text("RAM     not known yet", LABEL)
        return self._whole("RAM", parts, width)

    @staticmethod
    def _whole(title: str, parts: list[MemoryPart], width: int, name: str = "") -> Row:
        """All of a memory in a row: its bar, and legend or at least what is free."""
        total_bytes = sum(part.nbytes for part in parts)
        unit_bytes, unit, digits = unit_for(total_bytes)
        figures = together([part.nbytes for part in parts], total_bytes, unit_bytes, digits)[:-1]
        names = [
            *text(name, LABEL),
            *legend(parts, figures),
            *text(f"  of {in_unit(total_bytes, unit_bytes, digits)} {unit}"),
        ]
        room = width - NAME_CELLS - len(names) - 2
        if room < LEAST_BAR:
            free = parts[-1]
            names = text(
                f"  {name}{in_unit(free.nbytes, unit_bytes, digits)} of "
                f"{in_unit(total_bytes, unit_bytes, digits)} {unit} free"
            )
            room = width - NAME_CELLS - len(names)
            return [*text(title.ljust(NAME_CELLS), LABEL), *stacked(parts, room), *names]
        return [*text(title.ljust(NAME_CELLS), LABEL), *stacked(parts, room), *blank(2), *names]

    def _reconciled(self, width: int) -> Row:
        """The system's figure for the process, or the driver's, as a sum of ours."""
        machine, account = self._feed.machine, self._account()
        if account is None or machine is None:
            return []
        unit_bytes, unit, digits = unit_for(account.process_bytes)
        process, untouched = account.process_bytes, account.untouched_bytes
        terms = [account.ledger_bytes, account.spare_bytes, account.runtime_bytes]
        in_use, spare, runtime, _ = together(terms, process + untouched, unit_bytes, digits)
        shown, missing, _ = together([process, untouched], process + untouched, unit_bytes, digits)
        words = f"{shown} {unit} = {in_use} in use"
        if account.spare_bytes:
            words += f" + {spare} kept free"
        beyond = "others and runtime" if account.with_others else "runtime"
        words += f" - {missing} not touched yet" if untouched else f" + {runtime} {beyond}"
        others = [part.nbytes for part in card_parts(machine) if part.word == "other programs"]
        if others:
            words += f"; others {size(others[0])}"
        if machine.process_swap_bytes:
            words += f"; {size(machine.process_swap_bytes)} swapped out"
        if machine.cgroup_limit_bytes is not None:
            words += f"; cgroup {size(machine.cgroup_usage_bytes)} of {size(machine.cgroup_limit_bytes)}"
        title = "process" if not machine.card else "on card"
        return text(title.ljust(NAME_CELLS) + words, LABEL)[:width]


class SideBars(Bars):
    """The same for a narrow column: one bar, its parts two a row, and the machine in a line."""

    def _shown(self, engine: EngineMemory, width: int) -> list[Row]:
        rows = [stacked(engine.parts, width)]
        shown = [pair for pair in zip(engine.parts, engine.figures, strict=True) if pair[0].nbytes > 0]
        half = width // 2
        for first in range(0, len(shown), 2):
            row: Row = []
            for part, figure in shown[first : first + 2]:
                words = [*text(part.fill, part.name), *text(f" {part.word}")]
                row += [*words, *blank(half - 2 - len(words) - len(figure)), *text(figure), *blank(2)]
            rows.append(row)
        rows += [[] for _ in range(4 - len(rows))]
        rows.append(text(f"{engine.used} of {engine.whole} {engine.unit} in use", LABEL))
        machine = self._feed.machine
        for name, whole in (("card", card_parts(machine)), ("RAM", machine_parts(machine))):
            if whole:
                total = sum(part.nbytes for part in whole)
                unit_bytes, unit, digits = unit_for(total)
                free = in_unit(whole[-1].nbytes, unit_bytes, digits)
                rows.append(text(f"{name} {free} of {in_unit(total, unit_bytes, digits)} {unit} free", LABEL))
        return rows
