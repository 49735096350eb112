"""A pass on a card: the layers of `layer.py` with rows in the card's memory.

The host is asked once a layer, by the pager, which experts were chosen; all else stays on the card.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from ebbtide.engine.device.tensors import TensorMemory
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.model.forward import Cancelled, through_layers
from ebbtide.engine.model.layer import KvView, LayerPass
from ebbtide.engine.model.rope import rope_tables
from ebbtide.engine.model.rows import F32, I32, Rows
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import DenseWeights, LayerWeights
from ebbtide.kernels.ops import Operations, Pages
from ebbtide.kernels.triton.kv_tables import kv_addresses
from ebbtide.kernels.triton.ops import CardOps


class CardPass(LayerPass):
    """A `LayerPass` whose arrays are tensors: what is numpy's work there is a kernel's here."""

    @property
    def _card(self) -> CardOps:
        return cast(CardOps, self.ops)

    def weigh_shared(self, layer: LayerWeights) -> None:
        """See `LayerPass.weigh_shared`."""
        if layer.shared_gate is not None:
            rows = self.rows
            self._card.row_gate(_tensor(rows.normed), _tensor(layer.shared_gate), _tensor(rows.shared_gate))

    def norm_heads(self, heads: F32, weight: F32) -> None:
        """See `LayerPass.norm_heads`."""
        self._card.rmsnorm_heads(_tensor(heads), _tensor(weight), self.spec.norm_eps)


class PageList:
    """Addresses of the pages of one sequence on the card, i64 [layers, blocks]; only what is new is sent."""

    def __init__(self, ops: CardOps, memory: TensorMemory, layers: int, blocks: int) -> None:
        self._ops = ops
        self._there = memory.empty((layers, blocks), torch.int64)
        self._ids = np.full((layers, blocks), -1, np.int32)
        self._bases: NDArray[np.uint64] = np.empty(0, np.uint64)

    def show(self, table: I32, pages: Pages, blocks: int) -> torch.Tensor:
        """What kernels get for the first `blocks` columns of `table`."""
        ids = table[:, :blocks]
        is_same = (ids == self._ids[:, :blocks]).all(axis=0)
        if not np.array_equal(self._bases, pages.slab_bases):
            self._bases, is_same = pages.slab_bases.copy(), np.zeros(blocks, np.bool_)
        first = blocks if is_same.all() else int(np.argmin(is_same))
        if first < blocks:
            self._ids[:, first:blocks] = ids[:, first:]
            self._ids[:, blocks:] = -1
            self._ops.put(self._there[:, first:blocks], kv_addresses(ids[:, first:], pages))
        return self._there[:, :blocks]


class CardForward:
    """A loaded model, ready to run up to `rows` tokens a pass; see `Forward`.

    Arrays that it hands out are tensors, to be handed back to `logits`.
    """

    def __init__(
        self,
        spec: ModelSpec,
        ops: CardOps,
        weights: DenseWeights,
        pager: Pager | None,
        memory: TensorMemory,
        *,
        rows: int,
        logit_rows: int,
        context: int,
        blocks: int,
    ) -> None:
        self.spec, self.ops, self.weights, self.pager = spec, ops, weights, pager
        self._rows = Rows(spec, rows, memory.zeros)
        self._ids = memory.empty((rows,), torch.int32)
        self._positions = memory.empty((rows,), torch.int32)
        self._logits = memory.empty((logit_rows, spec.vocab), torch.float32)
        self._pages = PageList(ops, memory, spec.layers, blocks)
        for table in weights.blocks():
            ops.adopt(table)
        factors = weights.rope_factors
        host = rope_tables(spec, None if factors is None else _host(factors), context)
        self._rotation = tuple(memory.empty(table.shape, torch.float32) for table in host)
        for there, here in zip(self._rotation, host, strict=True):
            ops.put(there, here)

    def hidden(
        self, ids: I32, start: int, kv: KvView, cancelled: Callable[[], bool], last: int | None = None
    ) -> F32:
        """See `Forward.hidden`. All rows are computed: parts of them lie less well for a card's loads."""

        def check() -> None:
            if cancelled():
                raise Cancelled

        at = self._begin(ids, start, kv)
        rows, spec = at.rows, self.spec
        self.ops.embed(self.weights.embedding.table, self._ids[: ids.size], _tensor(rows.x))

        def routed(rows: Rows) -> I32:
            return self.ops.fetch(_tensor(rows.chosen))

        through_layers(at, self.weights, self.pager, routed, check, ids.size)
        normed = _tensor(rows.normed)
        self.ops.rmsnorm(_tensor(rows.x), _tensor(self.weights.final_norm), spec.norm_eps, normed)
        self.ops.check()
        return rows.normed if last is None else rows.normed[ids.size - last :]

    def logits(self, rows: F32, out: F32) -> None:
        """See `Forward.logits`; `out` is the host's."""
        there = self._logits[: len(rows)]
        self.ops.linear(_tensor(rows), self.weights.head, there)
        out[:] = self.ops.fetch(there)

    def _begin(self, ids: I32, start: int, kv: KvView) -> CardPass:
        positions = self._positions[: ids.size]
        self.ops.put(self._ids[: ids.size], ids)
        self.ops.put(positions, np.arange(start, start + ids.size, dtype=np.int32))
        blocks = -(-(start + ids.size) // kv.layout.tokens)
        shown = KvView(_array(self._pages.show(kv.table, kv.pages, blocks)), kv.layout, kv.pages)
        ops = cast(Operations, self.ops)
        cos, sin = (_array(table) for table in self._rotation)
        return CardPass(self.spec, ops, self._rows.first(ids.size), _array(positions), shown, cos, sin)


def _tensor(array: F32 | I32) -> torch.Tensor:
    """What stands for an array on a card."""
    return cast(torch.Tensor, array)


def _array(tensor: torch.Tensor) -> Any:
    """The reverse: `LayerPass` only slices and reshapes what it hands on to the operations."""
    return tensor


def _host(vector: F32) -> F32:
    found: F32 = _tensor(vector).cpu().numpy()
    return found
