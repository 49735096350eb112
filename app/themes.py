"""The two colour schemes; the stylesheet (theme.tcss) uses their names only."""

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
_LIGHT_BACKGROUNDS = {"7", "15"}


def install_themes(app: App[None], chosen: str) -> None:
    """Offer these two and no others: theirs are the colours whose contrast is tested."""
    app.register_theme(DARK)
    app.register_theme(LIGHT)
    app.theme = chosen
    for name in set(app.available_themes) - {DARK.name, LIGHT.name}:
        app.unregister_theme(name)


def theme_name(wish: str) -> str:
    """`dark`, `light`, or `auto`: what the terminal says in COLORFGBG, dark when it says nothing."""
    if wish == "auto":
        background = os.environ.get("COLORFGBG", "").rpartition(";")[2]
        wish = "light" if background in _LIGHT_BACKGROUNDS else "dark"
    return LIGHT.name if wish == "light" else DARK.name
