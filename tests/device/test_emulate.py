"""What `--emulate` takes, and that it only ever takes away."""

import pytest

from ebbtide.engine.device.emulate import Emulation, parse_emulation
from ebbtide.engine.errors import UsageError


def test_memory_and_rate() -> None:
    found = parse_emulation("vram=8GB,pcie=12GB/s")
    assert found == Emulation(8 * 10**9, 12 * 10**9)
    assert found.sentence == "Emulated: 8 GB of card memory and copies at 12 GB/s."
    assert parse_emulation("pcie=3.5GiB/s") == Emulation(None, int(3.5 * 2**30))
    assert parse_emulation(" vram = 6GiB ") == Emulation(6 * 2**30)


def test_it_only_takes_away() -> None:
    found = parse_emulation("vram=8GB,pcie=1GB/s")
    assert (found.card_bytes(4 * 10**9), found.card_bytes(24 * 10**9)) == (4 * 10**9, 8 * 10**9)
    assert found.least_seconds(5 * 10**8) == 0.5
    assert found.free_bytes(24 * 10**9, 20 * 10**9) == 4 * 10**9
    assert found.free_bytes(24 * 10**9, 10 * 10**9) == 0 and found.free_bytes(4 * 10**9, 10**9) == 10**9
    off = Emulation()
    assert parse_emulation("") == off and off.free_bytes(9, 7) == 7
    assert (off.sentence, off.card_bytes(7), off.least_seconds(10**9)) == ("", 7, 0.0)


@pytest.mark.parametrize(
    "text",
    ["vram", "vram=", "ram=8GB", "vram=8GB,vram=6GB", "pcie=12GB", "pcie=fast/s", "vram=0", "vram=8GB,"],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_emulation(text)
    assert caught.value.hint
