"""One line that says how far something is, as long as there is room for it."""

from collections.abc import Sequence

BAR_CELLS, LEAST_BAR_CELLS = 24, 4
MOST_WORD_CELLS, LEAST_WORD_CELLS = 40, 12


def bar_line(words: str, share: float, tails: Sequence[str], room: int) -> str:
    """`Packing ━━━── 60% of 738 MiB, about 40 s left` in at most `room` cells.

    What does not fit: the words are cut first, then the bar gets shorter, then the last of `tails` go.
    """
    kept = list(tails)
    least = min(_cells(words), LEAST_WORD_CELLS)
    while True:
        end = f"{share:4.0%}{''.join(kept)}"
        beside = room - len(end) - 1
        if beside >= least or not kept:
            break
        kept.pop()
    bar = _bar(share, min(BAR_CELLS, beside - least - 1))
    most = min(MOST_WORD_CELLS, beside - len(bar) - bool(bar))
    return shortened(" ".join(part for part in (shortened(words, most), bar, end) if part), room)


def _bar(share: float, cells: int) -> str:
    if cells < LEAST_BAR_CELLS:
        return ""
    full = round(share * cells)
    return "━" * full + "─" * (cells - full)


def shortened(text: str, room: int) -> str:
    """`text`, or what of it fits into so many cells, with a mark where it was cut."""
    from rich.cells import set_cell_size  # only work that takes a while waits for it

    if _cells(text) <= room:
        return text
    return f"{set_cell_size(text, room - 1).rstrip()}…" if room > 0 else ""


def _cells(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
