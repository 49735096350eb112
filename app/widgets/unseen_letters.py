"""Characters that are typed and are no picture of their own: joiners, marks of direction, odd spaces.

Textual takes only those keys for text that Python calls printable, which these are not. Persian words and
emoji of several parts would lose letters that are between others.
"""

from textual.events import Key

from ebbtide.app.safe_text import safe

FIRST = "\xa0"
"""What is below are control characters and ASCII: Textual's."""


def unseen_letter(event: Key) -> str:
    """The character that a key writes and Textual would drop; empty for any other key."""
    character = event.character or ""
    is_unseen = len(character) == 1 and character >= FIRST and not event.is_printable
    return character if is_unseen and safe(character) == character else ""
