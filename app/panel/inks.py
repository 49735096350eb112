"""The inks of the panel: component classes of what holds all of its parts.

To style two dozen inks for each part took most of the time in which the panel opened.
"""

from typing import TYPE_CHECKING, cast

from rich.style import Style

from ebbtide.app.panel.cell import Ink

if TYPE_CHECKING:
    from textual.widget import Widget

INKS: tuple[Ink, ...] = (
    "none",
    "label",
    "faint",
    "title",
    "live",
    "warning",
    "static",
    "expert",
    "kv",
    "transient",
    "runtime",
    "free",
    "engine",
    "app",
    "other",
    "w8",
    "w6",
    "w4",
    "w3",
    "w2",
    "absent",
    "uses",
    "pinned",
    "chosen",
)
INK_CLASSES = {f"ink--{ink}" for ink in INKS}
"""The component classes; a widget class with `Inked` in front declares them."""


class Inked:
    """To be put in front of the widget class that holds `Cells`. (No widget itself: styles are inherited from
    the first base that is one.)
    """

    def ink(self, ink: Ink) -> Style:
        """How an ink looks on this widget's background."""
        return cast("Widget", self).get_component_rich_style(f"ink--{ink}")

    def notify_style_update(self) -> None:
        """Another theme: it reaches the parts only from here."""
        from ebbtide.app.panel.canvas import Cells

        super().notify_style_update()  # type: ignore[misc]  # the widget class behind this one
        for cells in cast("Widget", self).query(Cells):
            cells.forget_inks()
