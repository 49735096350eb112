"""The words of an empty chat."""

_WORDS = """\
░░▒▒▓▓██▓▓▒▒░░   e b b t i d e   ░░▒▒▓▓██▓▓▒▒░░

Weights and context share one budget.

Ask something: Enter sends, Ctrl+J breaks the line, /help tells the rest.
"""
PLACEHOLDER = "Ask about code ..."
"""In the empty prompt."""
OFFER = "Ctrl+O goes on with “{}”"


def greeting(offered: str = "") -> str:
    """With the title of a chat that may be gone on with; it should leave the offer in one line.

    Without one there is an empty line in its place: nothing moves when the offer comes.
    """
    return f"{_WORDS}\n{OFFER.format(offered) if offered else ' '}"


GREETING = greeting()
