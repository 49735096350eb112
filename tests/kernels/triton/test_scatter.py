"""Pages scattered from a staging buffer: every byte arrives, and nothing else changes."""

import ctypes

import numpy as np
import pytest
import torch

from ebbtide.kernels.triton.scatter import PIECE_BYTES, scatter
from tests.helpers.sealed_store import aligned
from tests.helpers.simulated_card import SimulatedCard, scatter_now

CPU = torch.device("cpu")


class Transfer:
    """A staging buffer with pages and their addresses, and the memory that they go to."""

    def __init__(self, pages: int, page_bytes: int) -> None:
        rng = np.random.default_rng(pages + page_bytes)
        self.staged = aligned(pages * page_bytes + 8 * pages + 64)
        self.staged[: pages * page_bytes] = rng.integers(0, 256, pages * page_bytes)
        self.memory = aligned((2 * pages + 1) * (page_bytes + 64))
        places = rng.permutation(2 * pages)[:pages] * (page_bytes + 64) + 64
        self.staged[pages * page_bytes :][: 8 * pages].view(np.int64)[:] = self.memory.ctypes.data + places
        self.sizes = (int(self.staged.ctypes.data), pages, page_bytes)


# One vector group; a prime number of them; a piece and 64 bytes; real pages (4 KiB, 48 KiB).
SIZES = [(1, 64), (5, 64 * 13), (3, PIECE_BYTES + 64), (7, 4096), (2, 48 << 10), (0, 4096), (2, 0)]


@pytest.mark.parametrize(("pages", "page_bytes"), SIZES)
def test_every_byte_arrives_and_nothing_else_changes(pages: int, page_bytes: int) -> None:
    got, wanted = Transfer(pages, page_bytes), Transfer(pages, page_bytes)
    before = got.staged.copy()
    scatter_now(*wanted.sizes)
    scatter(*got.sizes, CPU)
    assert (got.memory == wanted.memory).all() and (got.staged == before).all()


def test_as_a_cards_queue_calls_it() -> None:
    transfer = Transfer(3, 4096)
    card = SimulatedCard(seed=1)
    slot = card.device(len(transfer.staged) + 64)
    slot += -slot % 64
    # The addresses lie right behind the pages, as `UploadTransfer` sends them.
    card.upload(int(transfer.staged.ctypes.data), slot, len(transfer.staged))
    card.queues.drain()
    scatter(slot, 3, 4096, CPU)
    pages = transfer.staged[: 3 * 4096].reshape(3, 4096)
    targets = transfer.staged[3 * 4096 :][:24].view(np.int64)
    for page, target in zip(pages, targets.tolist(), strict=True):
        assert ctypes.string_at(target, 4096) == page.tobytes()


@pytest.mark.parametrize(("offset", "page_bytes"), [(0, 100), (0, 32), (8, 64)])
def test_refuses_what_is_not_aligned(offset: int, page_bytes: int) -> None:
    staged, pages, _ = Transfer(1, 64).sizes
    with pytest.raises(ValueError, match="in vectors"):
        scatter(staged + offset, pages, page_bytes, CPU)
