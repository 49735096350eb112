"""Syntax colours. On a terminal's own 16 colours only those are used that can be read on its background."""

from pygments.token import Token
from textual.content import Content
from textual.highlight import HighlightTheme, highlight

LARGE_CHARACTERS = 50_000
"""Longer code is shown in one colour: highlighting takes about a second for each megabyte."""


def _changes(inserted: str, deleted: str, place: str) -> dict[tuple[str, ...], str]:
    """The lines of a diff."""
    return {
        Token.Generic.Inserted: inserted,
        Token.Generic.Deleted: deleted,
        Token.Generic.Subheading: place,
        Token.Generic.Heading: "bold",
    }


def _styles(keyword: str, name: str, string: str, number: str, error: str) -> dict[tuple[str, ...], str]:
    """From a few inks to the tokens that Textual's own theme colours."""
    return _changes(name if string == error else string, error, keyword) | {
        **dict.fromkeys(set(HighlightTheme.STYLES) - set(_changes("", "", "")), ""),
        Token.Comment: "italic",
        Token.Error: error,
        Token.Keyword: f"bold {keyword}",
        Token.Keyword.Constant: number,
        Token.Keyword.Namespace: keyword,
        Token.Keyword.Type: name,
        Token.Literal.Number: number,
        Token.Literal.String: string,
        Token.Literal.String.Backtick: string,
        Token.Literal.String.Doc: f"italic {string}",
        Token.Literal.String.Double: string,
        Token.Name.Builtin: name,
        Token.Name.Class: f"bold {name}",
        Token.Name.Decorator: name,
        Token.Name.Function: name,
        Token.Name.Tag: name,
        Token.Number: number,
        Token.Operator.Word: keyword,
        Token.String: string,
    }


class Colors(HighlightTheme):
    """Textual's own, and the lines of a diff."""

    STYLES = HighlightTheme.STYLES | _changes("$text-success", "$text-error", "$text-accent")


class AnsiDark(HighlightTheme):
    """For dark terminals."""

    STYLES = _styles(
        "ansi_bright_magenta",
        "ansi_bright_cyan",
        "ansi_bright_green",
        "ansi_bright_yellow",
        "ansi_bright_red",
    )


class AnsiLight(HighlightTheme):
    """For light terminals, on which most of the 16 colours are too pale."""

    STYLES = _styles("ansi_magenta", "ansi_blue", "ansi_red", "ansi_blue", "ansi_red")


def colored(code: str, language: str, *, ansi: bool, dark: bool) -> Content:
    """`code` in colour. A language that is not known, or not given, is text: nothing is guessed."""
    if len(code) > LARGE_CHARACTERS:
        return Content(code)
    theme = (AnsiDark if dark else AnsiLight) if ansi else Colors
    return highlight(code, language=language.strip().partition(" ")[0] or "text", theme=theme)
