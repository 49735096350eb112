"""Nothing that a model or a file contains may reach the terminal as a control sequence."""

_KEPT = {"\n", "\t"}
_CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}")
_BIDI = {
    0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO",
    0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI",
}  # fmt: skip
"""Characters that reorder what follows them, so that code reads other than it runs."""
_TABLE = {ord(char): None for char in _CONTROLS if char not in _KEPT} | _SURROGATES
_VISIBLE = _TABLE | {code: f"⟨{name}⟩" for code, name in _BIDI.items()} | {0x2028: "\n", 0x2029: "\n"}


def visible(text: str) -> str:
    """As `safe`, for the screen: marks of direction are shown by name, odd line separators are newlines."""
    return text.translate(_VISIBLE)


def safe(text: str) -> str:
    """`text` without C0 (but newline and tab), DEL and C1 characters; lone surrogates become U+FFFD."""
    return text.translate(_TABLE)


def safe_line(text: str) -> str:
    """As `visible`, on one line: for names, titles and messages."""
    return " ".join(visible(text).split())


def whole_text(text: str) -> str:
    """`text` as UTF-8 can carry it: each byte of an argument or a line that is no UTF-8 becomes U+FFFD."""
    return text.translate(_SURROGATES)
