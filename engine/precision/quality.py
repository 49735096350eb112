"""What `--quality` means: how much low widths may cost before experts leave memory instead.

*Of a calibrated model* it is known what errors cost, in nats a token (units.py). A plan that would cost more
than `nats` is not made; 0.01 of them are about 1 % of perplexity. What the arm static was told to cost the
starter, and cost on 1,024 held-out tokens, from 6 bits a weight down to 3.5: 0.004 and 0.003, 0.008 and
0.006, 0.016 and 0.015, 0.033 and 0.031, 0.066 and 0.072, 0.134 and 0.147. Single blocks may lose `tolerated`,
which only keeps experts that are hardly ever chosen from becoming useless.

*Without a calibration* all that is known of a block is how much of its output's power is lost, and each block
may lose `alone`. A plane less makes that error four times as large (6 dB). What it costs differs from model
to model. Of the starter, a small model that is sensitive to it, with all blocks as narrow as they may be: 6
planes and +0.4 % perplexity (KL 0.008), 5 planes and +4.1 % (0.042), 4 planes and +28 % (0.24). One more
step, to 3 planes, made it useless (+366 %).

`HOT_SHARE` and `HOT_PLANES` are chosen by hand, and no others have been compared.
"""

from typing import Literal, NamedTuple

QualityName = Literal["high", "balanced", "fast"]


class Quality(NamedTuple):
    """Bounds of the widths that a planner may choose."""

    name: QualityName
    nats: float
    """The most that all of them may cost together, where that can be told."""
    tolerated: float
    """The most that a block may lose then, as a share of its output's power; 10 ** (-dB / 10)."""
    alone: float
    """The same where what it costs cannot be told."""


QUALITIES: dict[str, Quality] = {
    quality.name: quality
    for quality in (
        Quality("high", 0.01, tolerated=0.004, alone=0.001),  # 24 dB, 30 dB
        Quality("balanced", 0.04, tolerated=0.016, alone=0.004),  # 18 dB, 24 dB
        Quality("fast", 0.15, tolerated=0.064, alone=0.016),  # 12 dB, 18 dB
    )
}

HOT_SHARE = 0.5
"""Experts that carry half of their layer's mass are protected: an error of theirs reaches most tokens."""
HOT_PLANES = 1
"""So many planes more than others: a quarter of their error."""
