"""The keys of the full panel, and what its words mean."""

import textwrap

KEYS = (
    ("Arrows, h k l", "choose an expert; a click does too"),
    ("z", "enlarge the map, or show all of it"),
    ("Space", "hold the events still, or let them go on"),
    ("/", "show only events that have certain words"),
    ("j", "events as JSON"),
    ("PageUp, PageDown", "newer and older events"),
    ("Esc", "take the filter away, then close"),
    ("F2, q", "close"),
)
ACTING = (
    ("p", "keep the chosen expert in memory, or no longer"),
    ("e", "take the chosen expert out of memory"),
    ("b", "let its bits fall no lower than now, or again"),
    ("w", "hold its bits as they are, or no longer"),
)
WORDS = (
    ("dense", "weights that every token needs; always in memory"),
    ("experts", "weights of which each token needs a few; read from disk when absent"),
    ("KV", "what the model keeps of the chat's tokens"),
    ("work", "room for the step under way"),
    ("runtime", "Python and libraries, beside the budget"),
    ("bits", "how exactly an expert's weights are there: 8 = all that the file has"),
    ("blocks", "an expert's two parts: gate and up, and down"),
    ("4+6-bit", "bits of an expert's two blocks, where they differ"),
    ("mean", "bits of a weight on average, over all experts, present or not"),
    ("≥ and =", "in the map: bits that may not fall, bits that are held; in a small one, the colour of pins"),
    ("hits", "experts that were in memory when a token needed them"),
    ("moved", "bytes read into memory a second"),
)
COLUMN = 18
LEAST_WORDS = 20
"""Cells that an explanation needs beside its word; narrower, it stands below."""


def panel_help(can_act: bool, width: int) -> str:
    """Plain text for `width` cells; lines that are not indented are titles."""
    keys = [*KEYS[:2], *ACTING, *KEYS[2:]] if can_act else KEYS
    parts = ["Keys", *(_row(*pair, width) for pair in keys)]
    return "\n".join([*parts, "", "Words", *(_row(*pair, width) for pair in WORDS)])


def _row(left: str, right: str, width: int) -> str:
    beside = width - COLUMN - 3 >= LEAST_WORDS
    begin = f"  {left:<{COLUMN}} " if beside else f"  {left}\n    "
    rest = " " * (COLUMN + 3) if beside else "    "
    return begin + f"\n{rest}".join(textwrap.wrap(right, max(width - len(rest), 1)))
