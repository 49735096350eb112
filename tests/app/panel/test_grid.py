"""Layouts of the map: everything has a place, nothing overlaps, the richest drawing that fits is taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.panel.expert_map import place_at
from ebbtide.app.panel.grid import Grid, Place, fit, window, zoom


@pytest.mark.parametrize(
    ("layers", "experts", "width", "height", "style", "cell_width"),
    [
        (30, 8, 84, 19, "bars", 4),  # a small model on 120x40
        (30, 8, 44, 8, "halves", 2),  # and on 80x24
        (48, 128, 84, 19, "dots", 1),
        (48, 128, 150, 30, "halves", 1),
        (48, 128, 150, 50, "bars", 1),
        (1, 2, 80, 24, "bars", 4),
    ],
)
def test_the_richest_that_fits(
    layers: int, experts: int, width: int, height: int, style: str, cell_width: int
) -> None:
    grid = fit(layers, experts, width, height)
    assert (grid.style, grid.cell_width, grid.merge) == (style, cell_width, 1)
    assert grid.width <= width and grid.rows <= height


@pytest.mark.parametrize(
    ("width", "height", "columns", "merge"),
    [(36, 12, 1, 2), (44, 8, 2, 4)],  # beside the chat; a large model on 80x24
)
def test_very_many_experts_share_dots(width: int, height: int, columns: int, merge: int) -> None:
    grid = fit(48, 128, width, height)
    assert (grid.style, grid.columns, grid.merge) == ("dots", columns, merge)
    assert grid.width <= width and grid.rows <= height


SIZES = st.tuples(st.integers(1, 100), st.integers(1, 300), st.integers(1, 220), st.integers(1, 70))


@given(SIZES)
def test_every_expert_has_a_place_of_its_own(size: tuple[int, int, int, int]) -> None:
    layers, experts, width, height = size
    grid = fit(layers, experts, width, height)
    shown = [layer for c in range(grid.columns) for y in range(grid.rows) for layer in grid.row_layers(c, y)]
    assert shown == list(range(layers))
    for layer in {0, layers // 2, layers - 1}:
        for expert in {0, experts // 2, experts - 1}:
            x, y = grid.locate(Place(layer, expert))
            assert 0 <= x < grid.width and 0 <= y < grid.rows
            found = place_at(grid, x, y, (0, 0))
            assert found is not None
            assert found.layer // grid.layers_per_row == layer // grid.layers_per_row
            assert found.expert == expert // grid.experts_per_cell * grid.experts_per_cell


@given(st.integers(1, 50), st.integers(1, 50), st.integers(0, 49), st.integers(-5, 60))
def test_a_window_holds_the_chosen_row(total: int, room: int, at: int, start: int) -> None:
    at = min(at, total - 1)
    first = window(total, room, at, start)
    assert 0 <= first <= at < first + room


def test_a_click_beside_the_map_is_no_expert() -> None:
    grid: Grid = zoom(fit(3, 4, 10, 10), 10)
    assert place_at(grid, 0, 0, (0, 0)) is None
    assert place_at(grid, 4, 3, (0, 0)) is None
    assert place_at(grid, 4 + 2 * 4, 0, (0, 0)) is None
    assert place_at(grid, 4 + 2 * 3, 2, (0, 0)) == Place(2, 3)
    assert place_at(grid, 4, 0, (2, 1)) == Place(1, 2)
