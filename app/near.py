"""Which of the known names a mistyped one may mean."""

from collections.abc import Iterable

NEAR_SHARE = 0.65
"""Of the letters of both names: two that changed places in a name of three are near enough."""


def nearest(typed: str, known: Iterable[str], count: int = 2) -> list[str]:
    """At most `count`, the likeliest first; dashes before flags are no likeness."""
    import difflib  # only where something is wrong

    bare = {name.lstrip("-"): name for name in known}
    near = difflib.get_close_matches(typed.lstrip("-").casefold(), bare, n=count, cutoff=NEAR_SHARE)
    return [bare[name] for name in near]
