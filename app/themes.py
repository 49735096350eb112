"""The colour schemes as Textual wants them; the stylesheet (theme.tcss) uses their names only."""

from dataclasses import asdict

from textual.app import App
from textual.theme import Theme

from ebbtide.app.no_color import install_no_color
from ebbtide.app.palettes import PALETTES, Palette


def _ansi_variables(paper: str, ink: str, faint: str, link: str) -> dict[str, str]:
    """Names that Textual's own styles use when a theme has the terminal's colours."""
    return {
        "ansi-background": paper,
        "ansi-foreground": ink,
        "border-blurred": faint,
        "block-cursor-foreground": paper,
        "block-cursor-background": ink,
        "input-cursor-background": ink,
        "input-cursor-foreground": paper,
        "input-selection-background": ink,
        "input-selection-foreground": paper,
        "screen-selection-background": ink,
        "screen-selection-foreground": paper,
        "link-color": link,
        "link-color-hover": link,
    }


def _theme(name: str, palette: Palette, variables: dict[str, str] | None = None) -> Theme:
    return Theme(name=name, variables=variables or {}, **asdict(palette))


_ANSI_DARK = _ansi_variables("ansi_black", "ansi_bright_white", "ansi_bright_black", "ansi_bright_cyan")
_ANSI_LIGHT = _ansi_variables("ansi_bright_white", "ansi_black", "ansi_bright_black", "ansi_blue")
DARK = _theme("ebbtide-dark", PALETTES["ebbtide-dark"])
LIGHT = _theme("ebbtide-light", PALETTES["ebbtide-light"])
ANSI_DARK = _theme("ebbtide-ansi-dark", PALETTES["ebbtide-ansi-dark"], _ANSI_DARK)
ANSI_LIGHT = _theme("ebbtide-ansi-light", PALETTES["ebbtide-ansi-light"], _ANSI_LIGHT)
THEMES = (DARK, LIGHT, ANSI_DARK, ANSI_LIGHT)


def install_themes(app: App[None], chosen: str) -> None:
    """Offer these and no others: theirs are the colours whose contrast is tested."""
    for theme in THEMES:
        app.register_theme(theme)
    app.theme = chosen
    install_no_color(app)
    for name in set(app.available_themes) - {theme.name for theme in THEMES}:
        app.unregister_theme(name)
