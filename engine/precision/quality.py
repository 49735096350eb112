"""What `--quality` means: how much a block may lose before experts give way instead.

A plane less makes the error of a block four times as large (6 dB). A tolerance is a share of the block's own
output power, so it means the same for every model, and each model's damage says which width keeps it: about
5, 4 and 3 planes where weights are spread evenly over their range, more where they are not. The shares are
chosen by hand, as steps of 6 dB about 18 dB: none was measured by what it costs in perplexity. `HOT_SHARE`
and `HOT_PLANES` are chosen by hand as well, and no others have been compared.
"""

from typing import Literal, NamedTuple

QualityName = Literal["high", "balanced", "fast"]


class Quality(NamedTuple):
    """Bounds of the widths that a planner may choose."""

    name: QualityName
    tolerated: float
    """The most that a block may lose, as a share of its output's power; 10 ** (-dB / 10). Chosen by hand."""


QUALITIES: dict[str, Quality] = {
    quality.name: quality
    for quality in (
        Quality("high", 0.004),  # 24 dB
        Quality("balanced", 0.016),  # 18 dB
        Quality("fast", 0.064),  # 12 dB
    )
}

HOT_SHARE = 0.5
"""Experts that carry half of their layer's mass are protected: an error of theirs reaches most tokens."""
HOT_PLANES = 1
"""So many planes more than others: a quarter of their error."""
