"""Sizes in messages: the units that `--budget` takes, short enough to be read at a glance."""

import pytest

from ebbtide.engine.sizes import format_bytes


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
