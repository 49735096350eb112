"""A line whose cursor stops blinking, and stays in view, when nobody types."""

from textual.events import Key
from textual.widgets import Input

from ebbtide.app.widgets.resting_area import BLINKS
from ebbtide.app.widgets.unseen_letters import unseen_letter


class RestingInput(Input):
    """One line; see `RestingArea`. Textual has another method for it here."""

    _changes_left = BLINKS

    async def _on_key(self, event: Key) -> None:
        """Called before the method of `Input`."""
        if letter := unseen_letter(event):
            event.stop()
            event.prevent_default()
            self._restart_blink()
            self.replace(letter, *self.selection)

    def _restart_blink(self) -> None:
        self._changes_left = BLINKS
        super()._restart_blink()

    def _toggle_cursor(self) -> None:
        super()._toggle_cursor()
        self._changes_left -= 1
        if self._changes_left <= 0:
            self._pause_blink(visible=True)
