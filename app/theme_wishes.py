"""The names of colour schemes in flags and settings; the command line does not need Textual for them."""

THEME_WISHES = ("auto", "dark", "light", "ansi", "ansi-dark", "ansi-light")
"""`auto` and `ansi` ask the terminal's COLORFGBG whether it is light; `ansi` uses its own 16 colours."""
