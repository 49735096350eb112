"""Both colour schemes can be read, and the choice between them is remembered."""

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual.color import Color
from textual.theme import Theme

from ebbtide.app.palettes import theme_name
from ebbtide.app.theme_wishes import THEME_WISHES
from ebbtide.app.themes import DARK, LIGHT, THEMES
from tests.helpers.chat_host import ask, chat_app, drawn, press, ready, settled, shown, until
from tests.helpers.contrast import ENOUGH_CONTRAST, contrast
from tests.helpers.fake_engine import Script

INKS = ("primary", "secondary", "accent", "success", "warning", "error", "foreground")


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("ink", INKS)
@pytest.mark.parametrize("paper", ["background", "surface"])
def test_contrast(theme: Theme, ink: str, paper: str) -> None:
    assert contrast(Color.parse(getattr(theme, ink)), Color.parse(getattr(theme, paper))) >= ENOUGH_CONTRAST


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
def test_faint_text_can_be_read_too(theme: Theme) -> None:
    """Notes and figures are drawn at 75 % over the background."""
    paper, ink = Color.parse(theme.background), Color.parse(str(theme.foreground))
    assert contrast(paper.blend(ink, 0.75), paper) >= ENOUGH_CONTRAST


def in_256_colours(color: str) -> Color:
    return Color.parse(RichColor.parse(color).downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
def test_code_stands_apart_in_256_colours_too(theme: Theme) -> None:
    papers = [in_256_colours(str(paper)) for paper in (theme.background, theme.surface, theme.panel)]
    assert len({paper.hex for paper in papers}) == len(papers)
    for ink in INKS:
        for paper in papers[:2]:
            assert contrast(in_256_colours(getattr(theme, ink)), paper) >= ENOUGH_CONTRAST, ink


@pytest.mark.parametrize(
    ("wish", "terminal", "name"),
    [
        ("dark", "0;15", DARK.name),
        ("light", "15;0", LIGHT.name),
        ("auto", "0;15", LIGHT.name),
        ("auto", "15;0", DARK.name),
        ("auto", "", DARK.name),
    ],
)
def test_choice(wish: str, terminal: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", terminal)
    assert theme_name(wish) == name


async def test_a_theme_chosen_in_the_app_is_remembered_by_the_name_that_was_given() -> None:
    remembered: list[tuple[str, str | bool]] = []
    app = chat_app(Script(), "light", lambda name, value: remembered.append((name, value)))
    async with app.run_test() as pilot:
        assert set(app.available_themes) == {theme.name for theme in THEMES}
        await ready(pilot)
        for wish in THEME_WISHES:
            await ask(pilot, f"/theme {wish}")
            await until(pilot, lambda wish=wish: remembered[-1:] == [("theme", wish)])  # type: ignore[misc]
            assert app.theme == theme_name(wish)


@pytest.mark.parametrize("wish", THEME_WISHES)
async def test_the_name_in_use_is_the_one_that_was_chosen(wish: str) -> None:
    async with chat_app(Script(), wish).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await ask(pilot, "/theme")
        await shown(pilot, "in use")
        in_use = [line.split() for line in drawn(pilot.app).split("\n") if "in use" in line]
        assert len(in_use) == 1 and wish in in_use[0]


async def test_lists_mark_what_enter_takes_and_the_theme_in_use() -> None:
    async with chat_app(Script(), "light").run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await ask(pilot, "/theme")
        marked = [f"▸ {wish} " for wish in THEME_WISHES]
        await shown(pilot, marked[0], without=marked[1:])
        in_use = [line for line in drawn(pilot.app).split("\n") if "in use" in line]
        assert len(in_use) == 1 and "light" in in_use[0].split()
        press(pilot, "down")
        await shown(pilot, marked[1], without=[marked[0], *marked[2:]])
        press(pilot, "pagedown")
        await shown(pilot, marked[-1], without=marked[:-1])
        press(pilot, "d", "a", "r", "k")
        await shown(pilot, "▸ dark")
        press(pilot, "enter")
        await until(pilot, lambda: pilot.app.theme == theme_name("dark"))


async def test_changing_the_theme_keeps_the_chat() -> None:
    async with chat_app(Script()).run_test() as pilot:
        await ready(pilot)
        pilot.app.theme = LIGHT.name
        await settled(pilot)
        assert pilot.app.screen.has_class("-light-mode") or not pilot.app.current_theme.dark
