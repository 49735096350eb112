"""Sealed pages: every byte as in the reference, and nothing else changed."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.ops import I32, KvLayout
from ebbtide.kernels.reference.seal import seal as reference_seal
from ebbtide.kernels.sealed import SEALED
from ebbtide.kernels.triton.kv_tables import kv_addresses, scale_addresses
from ebbtide.kernels.triton.seal import seal
from tests.helpers.sealed_store import SealedStore


def run(store: SealedStore, sources: I32, targets: I32) -> int:
    """Faults of one call."""
    fault = torch.zeros(1, dtype=torch.int32)
    sealed = np.where(targets < 0, -1, targets + SEALED).astype(np.int32)
    beside = scale_addresses(sealed, store.layout, store.pages, store.sidecar)
    pages = [torch.from_numpy(kv_addresses(ids, store.pages)) for ids in (sources, targets)]
    seal(pages[0], pages[1], torch.from_numpy(beside), store.layout, fault)
    return int(fault.item())


def stores(layout: KvLayout, runs: int, size: float = 1.0) -> list[SealedStore]:
    """Two with the same full BF16 pages, vectors of very different sizes."""
    found = []
    for _ in range(2):
        rng = np.random.default_rng(runs)
        store = SealedStore(layout, runs * layout.tokens)
        shape = (2, runs * layout.tokens, layout.heads, layout.head_dim)
        k, v = (rng.standard_normal(shape) * size * rng.uniform(1e-3, 1e3, shape[:3])[..., None]).astype(
            np.float32
        )
        store.fill(k, v)
        found.append(store)
    return found


LAYOUTS = [
    KvLayout(1, 16, 8),
    KvLayout(3, 32, 24),
    KvLayout(2, 64, 8),
    KvLayout(1, 80, 40),
    KvLayout(2, 96, 16),
    KvLayout(2, 128, 24),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_byte_is_as_in_the_reference(layout: KvLayout) -> None:
    wanted, got = stores(layout, 6)
    sources, targets = wanted.pairs([2, 0])
    reference_seal(sources, targets, layout, wanted.pages, wanted.sidecar)
    assert run(got, sources, targets) == 0
    assert (got.bytes() == wanted.bytes()).all()


@pytest.mark.parametrize("size", [1e-41, 1e-36, 1e-3, 1e30, 1e35])
def test_tiny_and_huge_values(size: float) -> None:
    layout = KvLayout(2, 32, 8)
    wanted, got = stores(layout, 2, size)
    sources, targets = wanted.pairs([0])
    reference_seal(sources, targets, layout, wanted.pages, wanted.sidecar)
    assert run(got, sources, targets) == 0
    assert (got.bytes() == wanted.bytes()).all()


def test_zeros_ties_and_vectors_without_numbers() -> None:
    layout = KvLayout(1, 16, 8)
    wanted, got = stores(layout, 2)
    special = np.zeros((2, 16, 1, 16), np.float32)
    special[:, 1] = 448.0
    special[:, 2, 0, :4] = [1.0, 1.0625, 1.1875, -1.0625]
    special[:, 3, 0, :4] = [448.0, 2.0**-10, 3 * 2.0**-10, -(2.0**-9)]
    special[:, 4, 0, 3], special[:, 5, 0, 3] = np.nan, -np.inf
    for store in (wanted, got):
        store.fill(*special)
    sources, targets = wanted.pairs([0])
    reference_seal(sources, targets, layout, wanted.pages, wanted.sidecar)
    assert run(got, sources, targets) == 0
    assert (got.bytes() == wanted.bytes()).all()


@pytest.mark.parametrize("part", range(2))
def test_a_missing_page_is_reported_and_its_target_left_alone(part: int) -> None:
    layout = KvLayout(2, 32, 8)
    wanted, got = stores(layout, 6)
    sources, targets = wanted.pairs([0, 1, 2])
    reference_seal(sources[::2], targets[::2], layout, wanted.pages, wanted.sidecar)
    if part == 0:
        sources[1, 1] = -1
    else:
        targets[1] = -1
    assert run(got, sources, targets) == 1
    assert (got.bytes() == wanted.bytes()).all()
    assert run(got, sources[:0], targets[:0]) == 0
