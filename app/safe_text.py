"""Nothing that a model or a file contains may reach the terminal as a control sequence."""

_KEPT = {"\n", "\t"}
_CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
_TABLE = {ord(char): None for char in _CONTROLS if char not in _KEPT} | _SURROGATES


def safe(text: str) -> str:
    """`text` without C0 (but newline and tab), DEL and C1 characters; lone surrogates become U+FFFD."""
    return text.translate(_TABLE)


def safe_line(text: str) -> str:
    """As `safe`, on one line: for names, titles and messages."""
    return " ".join(safe(text).split())


def whole_text(text: str) -> str:
    """`text` as UTF-8 can carry it: each byte of an argument or a line that is no UTF-8 becomes U+FFFD."""
    return text.translate(_SURROGATES)
