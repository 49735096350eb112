"""A text whose cursor stops blinking, and stays in view, when nobody types: each blink draws."""

from textual.events import Key
from textual.widgets import TextArea

from ebbtide.app.widgets.unseen_letters import unseen_letter

BLINKS = 20
"""Changes after the last key, two in a second: about as long as a cursor blinks elsewhere on a desktop."""


class RestingArea(TextArea):
    """Several lines; see `RestingInput` for one."""

    _changes_left = BLINKS

    async def _on_key(self, event: Key) -> None:
        """Called before the method of `TextArea`."""
        letter = unseen_letter(event)
        if letter and not self.read_only:
            event.stop()
            event.prevent_default()
            self._restart_blink()
            self._replace_via_keyboard(letter, *self.selection)

    def _restart_blink(self) -> None:
        self._changes_left = BLINKS
        super()._restart_blink()

    def _toggle_cursor_blink_visible(self) -> None:
        super()._toggle_cursor_blink_visible()
        self._changes_left -= 1
        if self._changes_left <= 0:
            self._pause_blink(visible=True)
