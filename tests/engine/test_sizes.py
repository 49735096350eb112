"""Sizes in messages: the units that `--budget` takes, short enough to be read at a glance."""

import pytest

from ebbtide.engine.sizes import (
    GIB,
    MIB,
    budget_words,
    format_bytes,
    mib_about,
    mib_there,
    mib_words,
    too_much_words,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1024, "1 KiB"),
        (1_048_000, "1.0 MiB"),
        (459 << 20, "459 MiB"),
        (1_234_567_890, "1.1 GiB"),
        ((100 << 20) - 10_000, "100 MiB"),
        (5 << 40, "5.0 TiB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize("part", [0, 1, 400_000, 700_000, MIB - 1])
def test_whole_mib(part: int) -> None:
    """What is needed is rounded up, what is there down; what is only told as at a glance."""
    size = 154 * MIB + part
    assert mib_words(size) == ("154 MiB" if part == 0 else "155 MiB")
    assert mib_there(size) == "154 MiB" and mib_about(size) == format_bytes(size)
    assert mib_words(2736 * MIB) == mib_there(2736 * MIB) == mib_about(2736 * MIB) == "2,736 MiB"


@pytest.mark.parametrize(
    ("wanted", "there", "words"),
    [
        (900 * 10**9, 24064 * MIB, ("838 GiB", "23.5 GiB")),
        (24065 * MIB, 24064 * MIB, ("24,065 MiB", "24,064 MiB")),
        (900 * MIB + 1, 900 * MIB, ("901 MiB", "900 MiB")),
    ],
)
def test_too_much_in_one_unit_where_that_tells_them_apart(
    wanted: int, there: int, words: tuple[str, str]
) -> None:
    assert too_much_words(wanted, there) == words


def test_a_budget_in_use_reads_as_in_the_bar() -> None:
    assert budget_words(323 * MIB + 300_000) == "323 MiB"
    assert budget_words(2736 * MIB) == "2,736 MiB" and budget_words(20 * GIB) == "20.0 GiB"
