"""Where a list or a page over the chat stands: above the prompt, not over its edge."""

from typing import Any

from textual.screen import ModalScreen

LEAST_ROWS = 14
"""Where fewer would be left above the prompt, it may be covered."""


def leave_prompt_in_view(screen: ModalScreen[Any], height: int) -> None:
    """`height`: rows of the terminal. To be called when they change."""
    bottom = sum(part.outer_size.height for part in screen.app.screen_stack[-2].query("#bottom"))
    screen.styles.padding = (0, 0, bottom if height - bottom >= LEAST_ROWS else 0, 0)
