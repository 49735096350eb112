"""One line that shows how the budget is split, in characters and in words, never by colour alone."""

from typing import ClassVar

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from ebbtide.app.chat_text import memory_parts
from ebbtide.app.safe_text import format_bytes
from ebbtide.engine.messages import Memory

BAR_SHARE = 4
"""The bar takes one in so many columns, the words take the rest."""
MIN_BAR_CELLS = 8


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
    """Draws a `Memory`; empty until there is one."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "memory--static",
        "memory--expert",
        "memory--kv",
        "memory--transient",
        "memory--free",
        "memory--label",
    }

    memory: reactive[Memory | None] = reactive(None)

    def render(self) -> Content:
        memory = self.memory
        if memory is None:
            return Content("")
        parts = memory_parts(memory)
        cells = max(MIN_BAR_CELLS, self.size.width // BAR_SHARE)
        counts = bar_cells([part[3] for part in parts], cells)
        label = self.get_visual_style("memory--label")
        pieces: list[Content | tuple[str, object]] = []
        for (name, fill, _, _), count in zip(parts, counts, strict=True):
            pieces.append((fill * count, self.get_visual_style(f"memory--{name}")))
        for name, fill, word, size in parts:
            if size > 0:
                pieces.append((f"  {fill}", self.get_visual_style(f"memory--{name}")))
                pieces.append((f" {word} {format_bytes(size)}", label))
        return Content.assemble(*pieces)  # type: ignore[arg-type]
