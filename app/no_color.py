"""NO_COLOR: greys for a theme with colours of its own; for the terminal's colours, its usual ink and paper.

Textual decides between the two before the application's theme is known, and once for all: the terminal's
colours then become one and the same grey, and nothing can be read.
"""

from typing import Any

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter, Monochrome, NoColor


class _While(LineFilter):
    """Another filter, while the theme of `app` has the terminal's colours, or while it has not."""

    def __init__(self, app: App[Any], filter: LineFilter, *, is_ansi: bool) -> None:
        self._app, self._filter, self._is_ansi = app, filter, is_ansi

    @property
    def enabled(self) -> bool:  # type: ignore[override]
        return self._app.native_ansi_color is self._is_ansi

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return self._filter.apply(segments, background)


def install_no_color(app: App[Any]) -> None:
    """Take out the colours as the theme wants it at any time, if NO_COLOR says so."""
    if not app.no_color:
        return
    others = [filter for filter in app._filters if not isinstance(filter, NoColor | Monochrome)]
    wanted = [_While(app, NoColor(), is_ansi=True), _While(app, Monochrome(), is_ansi=False)]
    app._filters = [*others, *wanted]
