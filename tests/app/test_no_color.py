"""Whatever the theme, and with NO_COLOR: no text has the colour of its own background."""

import sys

import pytest

from ebbtide.app.palettes import PALETTES
from tests.helpers.fake_engine import Script

if sys.platform == "win32":
    pytest.skip("there are no such terminals there", allow_module_level=True)

from tests.helpers.terminal import Terminal
from tests.helpers.terminal_cells import Look, TerminalCells

ROWS, COLUMNS = 30, 100
ANSWER = (
    "# Title\n\nsome `code`, *em* and [a link](http://x)\n\n```python\nx = 1  # note\n```\n\n> quoted\n\nlast"
)
THEMES = [name.removeprefix("ebbtide-") for name in PALETTES]


def looks(terminal: Terminal) -> dict[Look, str]:
    """What is drawn in each look, spaces left out."""
    cells = TerminalCells(ROWS, COLUMNS)
    cells.feed(terminal.output)
    found: dict[Look, str] = {}
    for row in cells.cells:
        for cell in row:
            if cell.text.strip():
                found[cell.look] = found.get(cell.look, "") + cell.text
    return found


def check_visible(found: dict[Look, str]) -> None:
    invisible = {
        look: text for look, text in found.items() if look.front is not None and look.front == look.back
    }
    assert not invisible
    assert len(found) > 3, "there is something to see"


@pytest.mark.parametrize("no_color", [False, True], ids=["colours", "NO_COLOR"])
@pytest.mark.parametrize("theme", THEMES)
def test_nothing_is_drawn_invisible(
    theme: str, no_color: bool, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    with Terminal(Script(answer=ANSWER), model, "--theme", theme, rows=ROWS, columns=COLUMNS) as terminal:
        terminal.wait_for("ready")
        terminal.send("hello\r")
        terminal.wait_for("quoted", "last")
        found = looks(terminal)
        check_visible(found)
        if no_color and theme.startswith("ansi"):
            assert {(look.front, look.back) for look in found} == {(None, None)}
        terminal.send("/stats")
        terminal.wait_for("figures of the last answer")
        check_visible(looks(terminal))


@pytest.mark.parametrize("before", ["dark", "ansi-dark"])
def test_nor_after_the_theme_has_been_changed(
    before: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    after = "ansi-light" if before == "dark" else "light"
    with Terminal(Script(answer=ANSWER), model, "--theme", before, rows=ROWS, columns=COLUMNS) as terminal:
        terminal.wait_for("ready")
        terminal.send(f"/theme {after}\r")
        terminal.wait_for("ready")
        terminal.send("hello\r")
        terminal.wait_for("quoted", "last")
        check_visible(looks(terminal))
