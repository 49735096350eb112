"""The questions put to the dense base: frames and fillings of `chat_questions.toml`, mixed with a seed."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

LISTS = Path(__file__).with_suffix(".toml")


def questions(count: int, seed: int) -> list[str]:
    """`count` different questions, the kinds in turn; fewer if the lists have no more."""
    rng = random.Random(seed)
    piles = []
    for kind in tomllib.loads(LISTS.read_text(encoding="utf-8")).values():
        pile = [frame.format(filling) for frame in kind["frames"] for filling in kind["fillings"]]
        rng.shuffle(pile)
        piles.append(pile)
    mixed: list[str] = []
    while len(mixed) < count and any(piles):
        mixed.extend(pile.pop() for pile in piles if pile)
    return mixed[:count]
