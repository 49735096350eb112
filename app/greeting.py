"""The words of an empty chat."""

GREETING = """\
░░▒▒▓▓██▓▓▒▒░░   e b b t i d e   ░░▒▒▓▓██▓▓▒▒░░

Weights and context share one budget.

Ask something: Enter sends, Ctrl+J breaks the line, /help tells the rest."""
PLACEHOLDER = "Ask about code ..."
"""In the empty prompt."""
