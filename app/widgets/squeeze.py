"""What a line says where it is too narrow for all of it: whole words give way, in a fixed order."""

from collections.abc import Mapping, Sequence

from rich.cells import cell_len, set_cell_size

Wordings = Mapping[str, Sequence[str]]
"""What each part of the line may say, the longest wording first."""
Step = tuple[str, int]
"""A part, and how many of its shortest wordings are kept for later steps."""


def squeeze(parts: Wordings, steps: Sequence[Step], room: int) -> dict[str, str]:
    """One wording of each part, so that together they take at most `room` cells, or all are the shortest.

    A part takes the cells of its text; spaces around it belong to the text. Parts give way in the order of
    `steps`, one wording at a time.
    """
    at = dict.fromkeys(parts, 0)
    widths = {part: [cell_len(text) for text in wordings] for part, wordings in parts.items()}
    taken = sum(wordings[0] for wordings in widths.values())
    for part, kept in steps:
        while taken > room and at[part] < len(parts[part]) - 1 - kept:
            taken += widths[part][at[part] + 1] - widths[part][at[part]]
            at[part] += 1
    return {part: wordings[at[part]] for part, wordings in parts.items()}


def shorter(text: str, least: int) -> list[str]:
    """`text`, then the same with fewer and fewer cells, down to `least`; the cut is shown by an ellipsis."""
    return [
        text,
        *(f"{set_cell_size(text, cells - 1)}…" for cells in range(cell_len(text) - 1, least - 1, -1)),
    ]
