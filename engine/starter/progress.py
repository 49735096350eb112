"""How the work reports itself: `progress(stage, done, total)`."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """Shows nothing."""
