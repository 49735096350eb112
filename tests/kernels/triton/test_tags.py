"""Integrity tags as in the reference: any number of pairs, several requests, pages that do not exist."""

import numpy as np
import pytest
import torch

from ebbtide.kernels.reference import tags as reference
from ebbtide.kernels.triton.tags import TILE, check_tags


@pytest.mark.parametrize("count", [0, 1, 97, TILE, TILE + 1, 3 * TILE - 5])
@pytest.mark.parametrize("wrong", [0.0, 0.1])
def test_as_in_the_reference(count: int, wrong: float) -> None:
    rng = np.random.default_rng(count)
    tags = rng.integers(1, 1 << 62, 200)
    page_ids = rng.integers(0, 200, count).astype(np.int32)
    expected = tags[page_ids]
    spoiled = rng.random(count) < wrong
    expected[spoiled] += 1 << rng.integers(
        0, 62, int(spoiled.sum())
    )  # off in one bit, also of the upper half
    page_ids[rng.random(count) < wrong / 4] = -3
    page_ids[rng.random(count) < wrong / 4] = 200
    requests = rng.integers(0, 5, count).astype(np.int32)
    bad, faults = np.full(count, 7, np.uint8), np.arange(5, dtype=np.int32)
    arrays = (tags, page_ids, expected, requests, bad, faults)
    given = [torch.from_numpy(array.copy()) for array in arrays]
    reference.check_tags(*arrays)
    check_tags(*given)
    for got, wanted in zip(given, arrays, strict=True):
        assert (got.numpy() == wanted).all()
    assert bool(bad.any()) == bool(wrong and count > 1)


def test_a_missing_page_never_matches_a_tag_of_nothing() -> None:
    tags, none = torch.zeros(1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)
    bad, faults = torch.zeros(2, dtype=torch.uint8), torch.zeros(1, dtype=torch.int32)
    ids = torch.tensor([-1, 1], dtype=torch.int32)
    check_tags(tags, ids, none, torch.zeros(2, dtype=torch.int32), bad, faults)
    assert bad.tolist() == [1, 1] and faults.item() == 2
