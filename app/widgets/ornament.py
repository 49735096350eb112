"""What stands beside a text for the eye: it cannot be selected, so a copy has nothing of it."""

from typing import ClassVar

from textual.widgets import Static


class Ornament(Static):
    """A sign, or words about a turn."""

    ALLOW_SELECT: ClassVar[bool] = False
