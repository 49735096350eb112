"""Synthetic prompts of a wanted length: common words in a repeatable order, different for every variant."""

import random

_WORDS = """
time year people way day man thing woman life child world school state family student group country
problem hand part place case week company system program question work government number night point
home water room mother area money story fact month lot right study book eye job word business issue
side kind head house service friend father power hour game line end member law car city community
name
""".split()  # noqa: SIM905 - a list of strings is hard to read


def words_of(count: int, variant: int) -> str:
    """`count` words separated by spaces; the same arguments give the same text on every machine."""
    chooser = random.Random(f"ebbtide {variant}")
    return " ".join(chooser.choice(_WORDS) for _ in range(count))
