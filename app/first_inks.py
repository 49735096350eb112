"""Colours of the first frame as escape sequences (SGR), as Textual and Rich would write them."""

import colorsys
import os
from typing import Literal, get_args

from ebbtide.app.first_rows import Ink
from ebbtide.app.palettes import PALETTES, Palette

Depth = Literal[24, 8]
_ANSI = {
    "ansi_default": 39,
    "ansi_blue": 34,
    "ansi_bright_cyan": 96,
    "ansi_bright_green": 92,
}
PLACEHOLDER_SHARE, STATUS_SHARE = 0.7, 0.75
"""Of the foreground, over the background: theme.tcss."""


def color_depth() -> Depth | None:
    """Bits of a colour that the terminal is said to know; None = few, or nobody says."""
    if os.environ.get("TEXTUAL_COLOR_SYSTEM", "auto") != "auto":
        return None
    if os.environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return 24
    return 8 if os.environ.get("TERM", "").strip().lower().endswith("256color") else None


def inks_of(theme: str, depth: Depth, *, no_color: bool = False) -> dict[Ink, str]:
    """Ink -> sequence that sets all of its attributes."""
    palette = PALETTES[theme]
    if palette.ansi and no_color:
        return _attributes()
    return _ansi_inks(palette) if palette.ansi else _inks(palette, depth, no_color)


def _attributes() -> dict[Ink, str]:
    """What is left without any colour."""
    plain: dict[Ink, str] = dict.fromkeys(get_args(Ink), "\x1b[0m")
    return {**plain, "name": "\x1b[0;1m", "cursor": "\x1b[0;7m"}


def _ansi_inks(palette: Palette) -> dict[Ink, str]:
    primary, success = _ANSI[palette.primary], _ANSI[palette.success]
    cursor = "30;107" if palette.dark else "39;49"
    return {
        "paper": "\x1b[0;39;49m",
        "air": f"\x1b[0;{primary};49m",
        "gap": "\x1b[0;39;49m",
        "primary": f"\x1b[0;{primary};49m",
        "name": f"\x1b[0;1;{primary};49m",
        "success": f"\x1b[0;{success};49m",
        "placeholder": "\x1b[0;39;49m",
        "cursor": f"\x1b[0;7;{cursor}m",
    }


def _inks(palette: Palette, depth: Depth, no_color: bool) -> dict[Ink, str]:
    paper, ink = _rgb(palette.background), _rgb(palette.foreground)
    primary, success = _rgb(palette.primary), _rgb(palette.success)
    faint = _blend(paper, ink, PLACEHOLDER_SHARE)
    # Textual has a fainter cursor on a light ground.
    cursor = (paper, ink) if palette.dark else (_blend(faint, (255, 255, 255), 0.9), faint)

    def set_to(front: tuple[int, ...], back: tuple[int, ...] = paper, bold: str = "") -> str:
        colors = (grey(color) if no_color else color for color in (front, back))
        first, second = (_code(color, depth) for color in colors)
        return f"\x1b[0;{bold}38;{first};48;{second}m"

    empty = f"\x1b[0;48;{_code(grey(paper) if no_color else paper, depth)}m"
    return {
        "paper": empty,
        "air": set_to(primary),
        "gap": set_to(_blend(paper, ink, STATUS_SHARE)),
        "primary": set_to(primary),
        "name": set_to(primary, bold="1;"),
        "success": set_to(success),
        "placeholder": set_to(faint),
        "cursor": set_to(*cursor),
    }


def _blend(under: tuple[int, ...], over: tuple[int, ...], share: float) -> tuple[int, ...]:
    return tuple(int(low + (high - low) * share) for low, high in zip(under, over, strict=True))


def _rgb(color: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(color.removeprefix("#")))


def grey(color: tuple[int, ...]) -> tuple[int, ...]:
    """What is left of a colour with NO_COLOR."""
    red, green, blue = color
    return (round(red * 0.2126 + green * 0.7152 + blue * 0.0722),) * 3


def _code(color: tuple[int, ...], depth: Depth) -> str:
    return f"2;{color[0]};{color[1]};{color[2]}" if depth == 24 else f"5;{indexed(color)}"


def indexed(color: tuple[int, ...]) -> int:
    """The nearest of the 256 usual colours: a ramp of greys from 232, a cube of 6 x 6 x 6 from 16."""
    _, lightness, saturation = colorsys.rgb_to_hls(*(part / 255 for part in color))
    if saturation < 0.15:
        step = round(lightness * 25)
        return 16 if step == 0 else 231 if step == 25 else 231 + step
    red, green, blue = (round(part / 95 if part < 95 else 1 + (part - 95) / 40) for part in color)
    return 16 + 36 * red + 6 * green + blue
