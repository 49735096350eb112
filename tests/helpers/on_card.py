"""What the other helpers build in ordinary memory, moved to where a device can read it."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from ebbtide.kernels.ops import I32, U8, BlockTable
from ebbtide.kernels.sealed import Sidecar
from ebbtide.kernels.triton.kv_tables import KvTable, kv_addresses, scale_addresses
from tests.helpers.sealed_store import SealedStore

Device = torch.device | str


def moved(table: BlockTable, device: Device) -> BlockTable:
    """The same blocks with their pages on `device`; on the processor the very same memory."""
    slabs = table.native.get("memory", [table.native.get("buffer")])
    assert isinstance(slabs, list)
    there = [torch.from_numpy(slab).to(device) for slab in slabs]
    return replace(
        table,
        pages=replace(table.pages, slab_bases=addresses(there)),
        native={"memory": slabs, "card": there},
    )


class MovedStore(NamedTuple):
    """A `SealedStore` whose pages and scales are on a device."""

    store: SealedStore
    slabs: list[torch.Tensor]
    scales: list[torch.Tensor]

    def table(self, block_table: I32 | None = None, *, may_seal: bool = False) -> KvTable:
        """A block table (the store's own) as kernels read it."""
        store, ids = self.store, self.store.table if block_table is None else block_table
        pages = replace(store.pages, slab_bases=addresses(self.slabs))
        device = self.slabs[0].device
        found = torch.from_numpy(kv_addresses(ids, pages)).to(device)
        if not may_seal:
            return KvTable(found)
        beside = scale_addresses(ids, store.layout, pages, Sidecar(addresses(self.scales)))
        return KvTable(found, torch.from_numpy(beside).to(device))

    def bytes(self) -> U8:
        """See `SealedStore.bytes`."""
        return np.concatenate([piece.cpu().numpy() for piece in self.slabs + self.scales])


def moved_store(store: SealedStore, device: Device) -> MovedStore:
    """The same pages on `device`; on the processor the very same memory."""
    slabs, scales = (
        [torch.from_numpy(piece).to(device) for piece in pieces] for pieces in (store.memory, store.scales)
    )
    return MovedStore(store, slabs, scales)


def addresses(pieces: list[torch.Tensor]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Where they begin."""
    return np.array([piece.data_ptr() for piece in pieces], np.uint64)
