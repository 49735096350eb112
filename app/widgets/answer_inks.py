"""How the parts of answers look: component classes of what holds the answers, so that they are computed once
and not for every turn.
"""

from typing import ClassVar

from textual.containers import VerticalScroll
from textual.style import Style


class AnswerInks(VerticalScroll):
    """Rows (`ebbtide.app.rendering`) name these classes with a dot in front."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "answer--code",
        "answer--code-title",
        "answer--em",
        "answer--faint",
        "answer--heading",
        "answer--inline-code",
        "answer--link",
        "answer--mark",
        "answer--rule",
        "answer--strong",
        "answer--subheading",
        "answer--struck",
        "answer--table-head",
        "answer--title",
    }

    def __init__(self) -> None:
        super().__init__()
        self._inks: dict[str, Style] = {}

    def ink(self, name: str | Style) -> Style:
        """A style by its name in a span: one of the classes, or anything Textual can parse."""
        if isinstance(name, Style):
            return name
        style = self._inks.get(name)
        if style is None:
            style = self._inks[name] = self._ink(name)
        return style

    def _ink(self, name: str) -> Style:
        if not name.startswith("."):
            return Style.parse(name)
        style = self.get_visual_style(name[1:], partial=True)
        rules = self.get_component_styles(name[1:])
        # A partial style forgets a background that lets nothing shine through.
        return style + Style(background=rules.background) if rules.has_rule("background") else style

    def notify_style_update(self) -> None:
        """Another theme."""
        super().notify_style_update()
        self._inks.clear()
