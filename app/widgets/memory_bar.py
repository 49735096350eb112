"""One line that shows how the budget is split, in characters and in words, never by colour alone."""

from typing import ClassVar

from textual.content import Content
from textual.reactive import reactive
from textual.style import Style
from textual.widget import Widget

from ebbtide.app.chat_text import MemoryPart, memory_parts
from ebbtide.app.panel.numbers import together
from ebbtide.engine.messages import Memory
from ebbtide.engine.sizes import budget_words, unit_for

MIN_BAR_CELLS, MAX_BAR_CELLS = 6, 40
ENOUGH_BAR_CELLS = 20
"""Where the whole legend would leave the bar less, the legend is shortened."""
NOTHING = "·"


def bar_cells(parts: list[int], cells: int) -> list[int]:
    """Split `cells` in proportion; a part that is there gets at least one cell. The sum is `cells`, or 0."""
    total = sum(parts)
    if total <= 0:
        return [0] * len(parts)
    counts = [max(1, round(part / total * cells)) if part > 0 else 0 for part in parts]
    while sum(counts) != cells:
        step = 1 if sum(counts) < cells else -1
        movable = [index for index, count in enumerate(counts) if count > 1 or (step > 0 and count > 0)]
        if not movable:
            break
        # Move the cell where it is furthest from its exact share.
        counts[max(movable, key=lambda index: step * (parts[index] / total * cells - counts[index]))] += step
    return counts


class MemoryBar(Widget):
    """Draws a `Memory`; empty until there is one. `ended`: why there is none any more, in words."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "memory--static",
        "memory--expert",
        "memory--kv",
        "memory--transient",
        "memory--free",
        "memory--label",
    }

    memory: reactive[Memory | None] = reactive(None)
    ended: reactive[str] = reactive("")

    def render(self) -> Content:
        memory = self.memory
        if self.ended:
            return self._empty(self.ended)
        if memory is None:
            return Content("")
        parts = memory_parts(memory)
        for words in (self._words(memory, parts), self._short_words(memory, parts), self._sum(memory)):
            room = self._room(words)
            if room >= ENOUGH_BAR_CELLS:
                break
        cells = min(max(room, MIN_BAR_CELLS), MAX_BAR_CELLS)
        counts = bar_cells([part.nbytes for part in parts], cells)
        bar = [
            (part.fill * count, self.get_visual_style(f"memory--{part.name}"))
            for part, count in zip(parts, counts, strict=True)
        ]
        return Content.assemble(*bar, *words)

    def _empty(self, words: str) -> Content:
        cells = min(max(self.content_size.width - len(words) - 2, MIN_BAR_CELLS), MAX_BAR_CELLS)
        style = self.get_visual_style("memory--free")
        label = self.get_visual_style("memory--label")
        return Content.assemble((NOTHING * cells, style), (f"  {words}", label))

    def _room(self, words: list[tuple[str, Style]]) -> int:
        return self.content_size.width - sum(len(text) for text, _ in words)

    def _short_words(self, memory: Memory, parts: list[MemoryPart]) -> list[tuple[str, Style]]:
        """Without patterns: the parts are named in the order in which the bar shows them."""
        words: list[tuple[str, Style]] = []
        for part, figure in self._figures(memory, parts):
            style = self.get_visual_style(f"memory--{'label' if part.name == 'free' else part.name}")
            words.append((f" {part.word} {figure}", style))
        return [*words, (f" of {self._budget(memory)}", self.get_visual_style("memory--label"))]

    def _sum(self, memory: Memory) -> list[tuple[str, Style]]:
        unit_bytes, _, digits = unit_for(memory.budget_bytes)
        sizes = [part.nbytes for part in memory_parts(memory)]
        *_, used = together(sizes, memory.budget_bytes, unit_bytes, digits)
        return [(f" {used} of {self._budget(memory)}", self.get_visual_style("memory--label"))]

    @staticmethod
    def _figures(memory: Memory, parts: list[MemoryPart]) -> list[tuple[MemoryPart, str]]:
        """Parts that are not empty, with figures that add up to the budget's."""
        unit_bytes, _, digits = unit_for(memory.budget_bytes)
        *figures, _ = together([part.nbytes for part in parts], memory.budget_bytes, unit_bytes, digits)
        return [(part, figure) for part, figure in zip(parts, figures, strict=True) if part.nbytes > 0]

    @staticmethod
    def _budget(memory: Memory) -> str:
        return budget_words(memory.budget_bytes)

    def _words(self, memory: Memory, parts: list[MemoryPart]) -> list[tuple[str, Style]]:
        """The legend: every part that is not empty, and the whole, in one unit."""
        label = self.get_visual_style("memory--label")
        words: list[tuple[str, Style]] = []
        for part, figure in self._figures(memory, parts):
            words.append((f"  {part.fill}", self.get_visual_style(f"memory--{part.name}")))
            words.append((f" {part.word} {figure}", label))
        return [*words, (f"  of {self._budget(memory)}", label)]
