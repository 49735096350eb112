"""The colours of the schemes, and which one is wished for, without Textual."""

import os
from dataclasses import dataclass

_LIGHT_BACKGROUNDS = {"7", "15"}


@dataclass(frozen=True)
class Palette:
    """Colours by what they are for: `#rrggbb`, or `ansi_...` for one of the terminal's own 16."""

    dark: bool
    ansi: bool
    primary: str
    secondary: str
    accent: str
    success: str
    warning: str
    error: str
    foreground: str
    background: str
    surface: str
    panel: str


PALETTES = {
    "ebbtide-dark": Palette(
        dark=True,
        ansi=False,
        primary="#5cc8d7",
        secondary="#8fb3ff",
        accent="#f2b86b",
        success="#8fd694",
        warning="#e8c468",
        error="#ff8a8f",
        foreground="#dce6ee",
        background="#0f1720",
        # Hardly any colour: a terminal of 256 colours takes dark blues for black, and these for greys.
        surface="#1d2127",
        panel="#2b3138",
    ),
    "ebbtide-light": Palette(
        dark=False,
        ansi=False,
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
    ),
    "ebbtide-ansi-dark": Palette(
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
    ),
    "ebbtide-ansi-light": Palette(
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
    ),
}
"""By the name of the theme."""


def theme_name(wish: str) -> str:
    """A wish of the settings as a theme. `auto` and `ansi` ask COLORFGBG; dark when it says nothing."""
    if wish in ("auto", "ansi"):
        background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
        shade = "light" if background in _LIGHT_BACKGROUNDS else "dark"
        wish = shade if wish == "auto" else f"ansi-{shade}"
    name = f"ebbtide-{wish}"
    return name if name in PALETTES else "ebbtide-dark"
