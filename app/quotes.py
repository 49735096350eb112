"""Triple quotes around several lines, which people type by habit of other chat programs."""

QUOTE = '"""'


def is_open_quote(text: str) -> bool:
    """Whether more lines are to come before the text is whole."""
    return text.lstrip().startswith(QUOTE) and text.count(QUOTE) == 1


def without_quotes(text: str) -> str:
    """The lines between the triple quotes, if they stand around the whole text."""
    stripped = text.strip()
    if stripped.count(QUOTE) == 2 and stripped.startswith(QUOTE) and stripped.endswith(QUOTE):
        return stripped[len(QUOTE) : -len(QUOTE)].strip("\n")
    return text
