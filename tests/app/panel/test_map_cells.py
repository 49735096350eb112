"""What stands in the cells of the map, exactly."""

from collections.abc import Callable

import pytest
from msgspec import structs

from ebbtide.app.panel.cell import Row, changes, text
from ebbtide.app.panel.grid import Grid, Style, fit, zoom
from ebbtide.app.panel.map_cells import Picture, uses_row
from ebbtide.app.panel.title import map_words
from tests.helpers.panel_states import residency


def drawn(row: Row) -> str:
    return "".join(cell.text for cell in row)


def widths(*rows: str) -> Callable[[int, int], int]:
    return lambda layer, expert: int(rows[layer][expert])


def test_bars_are_as_high_as_the_width() -> None:
    picture = Picture(residency(2, 9, widths("012345678", "000000000")), zoom(fit(2, 9, 10, 10), 10))
    assert drawn(picture.row(0)) == "L00 · ▁ ▁ ▂ ▃ ▄ ▅ ▆ ▇ "
    assert drawn(picture.row(1)) == "L01 " + "· " * 9


def test_wide_bars_keep_a_gap_and_pins_a_mark() -> None:
    grid = Grid("bars", 1, 3, 4, 1, 1, 1)
    row = Picture(residency(1, 3, widths("808"), pinned=[(0, 2)]), grid).row(0)
    assert drawn(row) == "L00 ▇▇▇ ·   ▇▇▇•"
    assert [row[4].ink, row[8].ink, row[12].ink] == ["w8", "absent", "pinned"]


@pytest.mark.parametrize("style", ["halves", "dots"])
def test_the_heading_says_how_many_layers_a_line_shows(style: Style) -> None:
    grid = Grid(style, 8, 8, 1, 1, 1, 1)
    assert map_words(grid).endswith(f"each, {grid.layers_per_row} layers a line")
    assert len(map_words(grid)) + len(" … 240 of 240 in memory ") + 6 <= 80


def test_halves_show_two_layers() -> None:
    grid = Grid("halves", 2, 5, 1, 1, 1, 1)
    row = Picture(residency(2, 5, widths("88004", "80800")), grid).row(0)
    assert drawn(row) == "L00 █▀▄·▀"
    mixed = Picture(residency(2, 1, widths("8", "4")), Grid("halves", 2, 1, 1, 1, 1, 1)).row(0)[4]
    assert (mixed.text, mixed.ink, mixed.under) == ("▀", "w8", "w4")


def test_a_dot_is_an_expert_and_its_colour_the_lowest_width() -> None:
    grid = Grid("dots", 4, 4, 1, 1, 1, 1)
    row = Picture(residency(4, 4, widths("8000", "0800", "6000", "0380")), grid).row(0)
    assert drawn(row) == "L00 ⢕⡀"
    assert [row[4].ink, row[5].ink] == ["w3", "w8"]


def test_a_dot_of_several_experts_is_lit_by_half_of_them() -> None:
    grid = Grid("dots", 1, 8, 1, 2, 1, 1)
    assert drawn(Picture(residency(1, 8, widths("80008888")), grid).row(0)) == "L00 ⠁⠉"


def test_layers_go_on_in_the_next_column() -> None:
    grid = fit(5, 2, 14, 3)
    picture = Picture(residency(5, 2, lambda layer, expert: 8), grid)
    assert [drawn(picture.row(y)) for y in range(3)] == ["L00 ▇▇  L03 ▇▇", "L01 ▇▇  L04 ▇▇", "L02 ▇▇        "]


def test_uses_are_shades_of_the_most_used() -> None:
    grid = Grid("bars", 1, 5, 2, 1, 1, 1)
    assert drawn(uses_row([0, 1, 50, 51, 100], grid)) == "· ░ ▒ ▓ █ "
    assert drawn(uses_row([0] * 5, grid)) == "· · · · · "


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ("abc", "abc", []),
        ("abc", "abd", [(2, 3)]),
        ("abc", "abcde", [(3, 5)]),
        ("abcde", "abc", [(3, 5)]),
        ("a........z", "b........y", [(0, 1), (9, 10)]),
        ("a....z", "b....y", [(0, 6)]),  # a jump of the cursor costs more than four cells
    ],
)
def test_changes(old: str, new: str, runs: list[tuple[int, int]]) -> None:
    assert changes(text(old), text(new)) == runs


@pytest.mark.parametrize(
    ("style", "wide", "expected"),
    [
        ("bars", 3, "L00 ▇▇≥▇▇=▇▇ ·  "),
        ("bars", 1, "L00 ▇▇▇·"),
        ("halves", 1, "L00 ▀▀▀·"),
        ("dots", 1, "L00 ⠉⠁"),
    ],
)
def test_bounded_widths_have_a_sign_or_the_ink_of_pins(style: Style, wide: int, expected: str) -> None:
    seen = structs.replace(
        residency(1, 4, widths("8880")), bounds=bytes([5, 8, 0, 0]), held=bytes([0, 1, 0, 0])
    )
    row = Picture(seen, Grid(style, 1, 4, wide, 1, 1, 1)).row(0)
    assert drawn(row) == expected
    marked = [cell.text for cell in row if cell.ink == "pinned"]
    assert (
        marked
        == {"bars": ["≥", "="] if wide == 3 else ["▇", "▇"], "halves": ["▀", "▀"], "dots": ["⠉"]}[style]
    )
