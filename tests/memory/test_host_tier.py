"""Experts kept in memory in front of the disk: read once, never beyond the allowance, right under threads."""

import ctypes
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ebbtide.engine.memory.host_tier import HostTier
from ebbtide.engine.memory.slow import KINDS, Kind
from tests.helpers.memory_fakes import LAYERS, PAGE, FakeSource, layouts, pattern

PAIRS = layouts()


def size(layer: int, kind: Kind) -> tuple[int, int]:
    layout = PAIRS[layer][KINDS.index(kind)]
    return layout.page_count * PAGE, len(layout.extent_ends) - 1


class PageSource(FakeSource):
    """Writes its pattern page by page, however large the targets are."""

    def read_expert(
        self,
        layer: int,
        expert: int,
        kind: Kind,
        first_extent: int,
        last_extent: int,
        targets: Sequence[tuple[int, int]],
    ) -> int:
        pages = [(at + offset, PAGE) for at, nbytes in targets for offset in range(0, nbytes, PAGE)]
        return super().read_expert(layer, expert, kind, first_extent, last_extent, pages)


def read(tier: HostTier, layer: int, expert: int, kind: Kind) -> int:
    """Read a whole block page by page and compare it; bytes read from the disk."""
    nbytes, last = size(layer, kind)
    buffer = (ctypes.c_ubyte * nbytes)()
    start = ctypes.addressof(buffer)
    targets = [(start + at, PAGE) for at in range(0, nbytes, PAGE)]
    count = tier.read_expert(layer, expert, kind, 0, last, targets)
    words = np.ctypeslib.as_array(buffer).view(np.uint32).reshape(-1, PAGE // 4)
    for page, row in enumerate(words):
        assert (row == pattern(layer, expert, kind, page)).all()
    return count


def test_a_block_is_read_from_the_disk_once() -> None:
    source = PageSource()
    tier = HostTier(source, size, 1 << 30)
    nbytes = size(0, "down")[0]
    assert [read(tier, 0, 1, "down") for _ in range(3)] == [nbytes, 0, 0]
    assert len(source.reads) == 1 and tier.kept_bytes == nbytes


def test_beyond_the_allowance_blocks_come_from_the_disk() -> None:
    source = PageSource()
    allowance = 2 * size(0, "gate_up")[0] + PAGE
    tier = HostTier(source, size, allowance)
    for _ in range(2):
        for expert in range(4):
            read(tier, 0, expert, "gate_up")
    assert tier.kept_bytes <= allowance
    assert len(source.reads) == 2 + 2 * 2  # two are kept, two are read each time


def test_a_failed_read_keeps_nothing_and_may_be_tried_again() -> None:
    source = PageSource()
    source.broken.add((1, 2))
    tier = HostTier(source, size, 1 << 30)
    for _ in range(3):
        with pytest.raises(OSError, match="the disk says no"):
            read(tier, 1, 2, "down")
    assert tier.kept_bytes == 0
    source.broken.clear()
    assert read(tier, 1, 2, "down") > 0


def test_a_system_without_memory_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(nbytes: int) -> None:
        raise OSError("Cannot allocate memory")

    monkeypatch.setattr("ebbtide.engine.memory.host_tier.anonymous", refuse)
    tier = HostTier(PageSource(), size, 1 << 30)
    assert read(tier, 0, 0, "gate_up") > 0
    assert tier.kept_bytes == 0


def test_many_readers_of_one_block_read_it_once() -> None:
    source, barrier = PageSource(), threading.Barrier(8)
    tier = HostTier(source, size, 1 << 30)

    def deed(_: int) -> int:
        barrier.wait()
        return sum(read(tier, layer, 3, kind) for layer in range(LAYERS) for kind in KINDS)

    with ThreadPoolExecutor(8) as pool:
        total = sum(pool.map(deed, range(8)))
    assert len(source.reads) == len(set(source.reads)) == LAYERS * len(KINDS)
    assert total == tier.kept_bytes > 0
