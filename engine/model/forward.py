"""One pass of tokens through the model: what every family shares, in the order of the layers.

A row's result depends on its own token, position and keys only (DESIGN: same bits whatever shares its batch),
so a chunk of the prefill and a single token give the same bits; the token's operations are recorded ones.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.model.layer import U8, KvView, LayerPass
from ebbtide.engine.model.rope import rope_tables
from ebbtide.engine.model.rows import F32, I32, Rows
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.token_programs import TokenPrograms
from ebbtide.engine.model.weights import DenseWeights
from ebbtide.kernels.ops import BlockTable, Ops


class Cancelled(Exception):
    """The request was cancelled between two layers; keys written by this pass are not valid."""


class Pass(Protocol):
    """A loaded model, ready to run a bounded number of tokens a pass."""

    def hidden(
        self, ids: I32, start: int, kv: KvView, cancelled: Callable[[], bool], last: int | None = None
    ) -> F32:
        """Run `ids` i32[M] at positions start .. start + M - 1; returns the final normed rows f32[M, D] (a
        view), to be sliced and handed to `logits`. `last`: only so many at the end are wanted, f32[last, D].

        Keys and values of all M are written to the pages of `kv`. Raises Cancelled between layers.
        """
        ...

    def logits(self, rows: F32, out: F32) -> None:
        """Scores of the next token, f32[M, vocabulary], of the rows that `hidden` gave."""
        ...


class LayerObserver(Protocol):
    """Sees the rows of a chunk in every layer with experts. It changes none of `at.rows` and keeps no view of
    them: the next layer uses the same buffers. What it raises ends the pass.
    """

    def routed(self, layer: int, at: LayerPass) -> None:
        """`at.rows.chosen` and `at.rows.gates` are what the router made of `at.rows.normed`."""
        ...

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """The chosen experts in `resident` u8[E] are computed, and stay in fast memory until this returns.
        Each chosen expert is in exactly one such group.
        """
        ...


class RouteObserver(LayerObserver, Protocol):
    """Sees the routes of all passes: those of a chunk layer by layer, and a single token's at its end."""

    def token(self, chosen: I32, gates: F32) -> None:
        """i32 and f32[layers, 1, k]; the next token overwrites them."""
        ...


class Forward:
    """See `Pass`; up to `rows` tokens on the processor."""

    def __init__(
        self, spec: ModelSpec, ops: Ops, weights: DenseWeights, pager: Pager | None, rows: int, context: int
    ) -> None:
        self.spec, self.ops, self.weights, self.pager = spec, ops, weights, pager
        self._rows = Rows(spec, rows)
        self._rotation = rope_tables(spec, weights.rope_factors, context)
        self._programs: TokenPrograms | None = None
        self.routes: RouteObserver | None = None
        """Who wants to know what passes without an observer of their own choose."""

    def hidden(
        self,
        ids: I32,
        start: int,
        kv: KvView,
        cancelled: Callable[[], bool],
        last: int | None = None,
        observer: LayerObserver | None = None,
    ) -> F32:
        """See `Pass.hidden`. An `observer` sees the rows that are computed, in the last layer `last`."""

        def check() -> None:
            if cancelled():
                raise Cancelled

        wanted = ids.size if last is None else last
        if ids.size == 1 and observer is None:
            return self._token(int(ids[0]), start, kv, check)[:wanted]
        return self._chunk(ids, start, kv, check, wanted, observer or self.routes)

    def logits(self, rows: F32, out: F32) -> None:
        """See `Pass.logits`."""
        self.ops.linear(rows, self.weights.head, out)

    def _token(self, token: int, position: int, kv: KvView, check: Callable[[], None]) -> F32:
        programs = self._programs_for(kv)
        row = programs.run(token, position, kv, check)
        if self.routes is not None:
            self.routes.token(programs.chosen, programs.gates)
        return row

    def _programs_for(self, kv: KvView) -> TokenPrograms:
        if self._programs is None or not self._programs.fits(kv):
            model = self.spec, self.ops, self.weights, self.pager
            self._programs = TokenPrograms(*model, self._rows.first(1), kv, self._rotation)
        return self._programs

    def _chunk(
        self,
        ids: I32,
        start: int,
        kv: KvView,
        check: Callable[[], None],
        wanted: int,
        observer: LayerObserver | None,
    ) -> F32:
        rows = self._rows.first(ids.size)
        positions = np.arange(start, start + ids.size, dtype=np.int32)
        at = LayerPass(self.spec, self.ops, rows, positions, kv, *self._rotation)
        self.weights.embedding.embed(self.ops, ids, rows.x)
        through_layers(at, self.weights, self.pager, lambda rows: rows.chosen, check, wanted, observer)
        rows = rows.last(wanted)
        if wanted:
            self.ops.rmsnorm(rows.x, self.weights.final_norm, self.spec.norm_eps, rows.normed)
        return rows.normed


def through_layers(
    at: LayerPass,
    weights: DenseWeights,
    pager: Pager | None,
    routed: Callable[[Rows], I32],
    check: Callable[[], None],
    wanted: int,
    observer: LayerObserver | None = None,
) -> None:
    """Take `at.rows` through all layers; behind the last one's keys only the last `wanted`, for nothing reads
    the others any more. `routed` gives the host the experts that rows chose; `check` is called before each
    layer and may raise. `observer`: for arrays of the host only.
    """
    for index, layer in enumerate(weights.layers):
        check()
        at.write_keys(index, layer)
        if index == len(weights.layers) - 1 and wanted < len(at.rows.x):
            if wanted == 0:
                break
            at = at.last(wanted)
        at.from_keys_to_routed(index, layer)
        if layer.router is not None:
            assert pager is not None
            gate_up, down = pager.gate_up(index), pager.down(index)
            if observer is not None:
                observer.routed(index, at)
            for resident in pager.groups(index, routed(at.rows)):
                at.experts(gate_up, down, resident)
                if observer is not None:
                    observer.computed(index, at, gate_up, down, resident)
        at.weigh_shared(layer)
        at.add_experts(layer)
