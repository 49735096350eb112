"""Contrast as WCAG 2 defines it, of colours and of a whole screen as it is drawn."""

from typing import NamedTuple

from rich.color import Color as RichColor
from rich.color import ColorType
from rich.style import Style
from textual.app import App
from textual.color import Color

ENOUGH_CONTRAST = 4.5
XTERM = [
    "#000000",
    "#cd0000",
    "#00cd00",
    "#cdcd00",
    "#0000ee",
    "#cd00cd",
    "#00cdcd",
    "#e5e5e5",
    "#7f7f7f",
    "#ff0000",
    "#00ff00",
    "#ffff00",
    "#5c5cff",
    "#ff00ff",
    "#00ffff",
    "#ffffff",
]
"""The 16 colours of xterm, for themes that use the terminal's own."""


def luminance(color: Color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.normalized]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Color, other: Color) -> float:
    """(L1 + 0.05) / (L2 + 0.05) of the relative luminances."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


class Faint(NamedTuple):
    """Text on the screen that is hard to read."""

    text: str
    contrast: float
    ink: str
    paper: str


def faint_texts(app: App[None], paper: str, ink: str, inside: str = "") -> list[Faint]:
    """Every piece with a letter or digit below the limit, on the whole screen or in the widget `inside`.

    `paper`, `ink`: the terminal's default colours.
    """
    region = app.screen.query_one(inside).region if inside else app.screen.region
    found = []
    for y, strip in enumerate(app.screen._compositor.render_strips()):
        x = 0
        for segment in strip:
            front, back = _colors(segment.style, paper, ink) if segment.style else (None, None)
            if front and back and any(map(str.isalnum, segment.text)) and region.contains(x, y):
                value = contrast(front, back)
                if value < ENOUGH_CONTRAST:
                    found.append(Faint(segment.text.strip(), round(value, 2), front.hex, back.hex))
            x += segment.cell_length
    return found


def _colors(style: Style, paper: str, ink: str) -> tuple[Color, Color]:
    """Text and background as a terminal shows them."""
    front, back = _real(style.color, ink), _real(style.bgcolor, paper)
    if style.reverse:
        front, back = back, front
    return (back.blend(front, 0.5) if style.dim else front), back


def _real(color: RichColor | None, default: str) -> Color:
    if color is None or color.type is ColorType.DEFAULT:
        return Color.parse(default)
    if (
        color.type in (ColorType.STANDARD, ColorType.EIGHT_BIT)
        and color.number is not None
        and color.number < 16
    ):
        return Color.parse(XTERM[color.number])
    triplet = color.get_truecolor()
    return Color(triplet.red, triplet.green, triplet.blue)
