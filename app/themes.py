"""The colour schemes; the stylesheet (theme.tcss) uses their names only."""

import os

from textual.app import App
from textual.theme import Theme

DARK = Theme(
    name="ebbtide-dark",
    dark=True,
    primary="#5cc8d7",
    secondary="#8fb3ff",
    accent="#f2b86b",
    success="#8fd694",
    warning="#e8c468",
    error="#ff8a8f",
    foreground="#dce6ee",
    background="#0f1720",
    surface="#16212c",
    panel="#1e2d3a",
)
LIGHT = Theme(
    name="ebbtide-light",
    dark=False,
    primary="#0b6577",
    secondary="#3451a8",
    accent="#8a5200",
    success="#2a6b38",
    warning="#7a5800",
    error="#a8201a",
    foreground="#1c2730",
    background="#fbfaf7",
    surface="#f3f1eb",
    panel="#e8e4da",
)


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


ANSI_DARK = Theme(
    name="ebbtide-ansi-dark",
    dark=True,
    ansi=True,
    primary="ansi_bright_cyan",
    secondary="ansi_bright_white",
    accent="ansi_bright_yellow",
    success="ansi_bright_green",
    warning="ansi_bright_yellow",
    error="ansi_bright_red",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    variables=_ansi_variables("ansi_black", "ansi_bright_white", "ansi_bright_black", "ansi_bright_cyan"),
)
ANSI_LIGHT = Theme(
    name="ebbtide-ansi-light",
    dark=False,
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_black",
    accent="ansi_magenta",
    success="ansi_blue",
    warning="ansi_magenta",
    error="ansi_red",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    variables=_ansi_variables("ansi_bright_white", "ansi_black", "ansi_bright_black", "ansi_blue"),
)
THEMES = (DARK, LIGHT, ANSI_DARK, ANSI_LIGHT)
_LIGHT_BACKGROUNDS = {"7", "15"}


def install_themes(app: App[None], chosen: str) -> None:
    """Offer these and no others: theirs are the colours whose contrast is tested."""
    for theme in THEMES:
        app.register_theme(theme)
    app.theme = chosen
    for name in set(app.available_themes) - {theme.name for theme in THEMES}:
        app.unregister_theme(name)


def theme_name(wish: str) -> str:
    """A wish of the settings as a theme. `auto` and `ansi` ask COLORFGBG; dark when it says nothing."""
    if wish in ("auto", "ansi"):
        background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
        shade = "light" if background in _LIGHT_BACKGROUNDS else "dark"
        wish = shade if wish == "auto" else f"ansi-{shade}"
    name = f"ebbtide-{wish}"
    return name if name in {theme.name for theme in THEMES} else DARK.name
