"""How the work reports itself: `progress(stage, done, total)`, in bytes; a total of 0 = not known."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Shows nothing."""
