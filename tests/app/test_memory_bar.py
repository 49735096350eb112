"""The status line's bar: long enough to read at every width, with a name for each part it shows."""

import pytest
from textual.app import App, ComposeResult

from ebbtide.app.widgets.memory_bar import ENOUGH_BAR_CELLS, MemoryBar, bar_cells
from ebbtide.engine.messages import Memory
from tests.helpers.panel_states import MIB, memory

FILLS = "█▓▒░·"
LARGE = memory(
    static_bytes=2656 * MIB,
    expert_bytes=14496 * MIB,
    kv_bytes=1544 * MIB,
    transient_bytes=832 * MIB,
    free_bytes=952 * MIB,
    budget_bytes=20480 * MIB,
)


class Host(App[None]):
    def __init__(self, shown: Memory) -> None:
        super().__init__()
        self.shown = shown

    def compose(self) -> ComposeResult:
        yield MemoryBar()

    def on_mount(self) -> None:
        self.query_one(MemoryBar).memory = self.shown

    def text(self) -> str:
        return self.query_one(MemoryBar).render().plain


@pytest.mark.parametrize("shown", [memory(), LARGE], ids=["MiB", "GiB"])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
async def test_the_bar_can_be_read(shown: Memory, width: int) -> None:
    app = Host(shown)
    async with app.run_test(size=(width, 3)) as pilot:
        await pilot.pause()
        text = app.text()
        bar = text[: next(i for i, character in enumerate(text) if character not in FILLS)]
        assert len(bar) >= ENOUGH_BAR_CELLS and len(text) <= width
        assert [character for character in FILLS if character in bar] == list(FILLS)
        assert ("of 300 MiB" if shown is not LARGE else "of 20.0 GiB") in text
        if width >= 80:
            for word in ("dense", "experts", "KV", "work", "free"):
                assert word in text


@pytest.mark.parametrize("cells", [6, 7, 24, 40])
@pytest.mark.parametrize("parts", [[60, 160, 40, 10, 30], [1, 1000, 0, 1, 1], [0, 0, 0, 0, 5]])
def test_cells_are_shared_in_proportion(parts: list[int], cells: int) -> None:
    counts = bar_cells(parts, cells)
    assert sum(counts) == cells
    assert all((count > 0) == (part > 0) for part, count in zip(parts, counts, strict=True))


def test_nothing_is_no_bar() -> None:
    assert bar_cells([0, 0], 10) == [0, 0]
