"""One token's way through the model as recorded operations: two calls into the library per layer.

Called one by one, a token's ten operations a layer cost more time between the kernels than a small model's
kernels take. The arrays are always the same, so the operations are written down once.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.model.layer import KvView, LayerPass
from ebbtide.engine.model.rows import F32, I32, Rows
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import DenseWeights
from ebbtide.kernels.ops import Ops, Program, Recorder


class TokenPrograms:
    """The programs of a model whose sequences have block tables of one shape in the same pages.

    `rows` are the buffers of one row. cos, sin f32[context, rotated / 2].
    """

    def __init__(
        self,
        spec: ModelSpec,
        ops: Ops,
        weights: DenseWeights,
        pager: Pager | None,
        rows: Rows,
        kv: KvView,
        rotation: tuple[F32, F32],
    ) -> None:
        self._weights, self._pager = weights, pager
        self._ids: I32 = np.zeros(1, np.int32)
        """The row of the embedding's table that has the token's."""
        self._position: I32 = np.zeros(1, np.int32)
        self._resident = np.zeros(max(spec.experts, 1), np.uint8)
        self._kv = KvView(np.full_like(kv.table, -1), kv.layout, kv.pages)
        recorder = ops.recorder()
        self._pass = LayerPass(spec, recorder, rows, self._position, self._kv, *rotation)
        every = len(weights.layers), *rows.chosen.shape
        self.chosen: I32 = np.zeros(every, np.int32)
        """Of the last token, i32[layers, 1, k]."""
        self.gates: F32 = np.zeros(every, np.float32)
        """What those experts counted, f32[layers, 1, k]; 0 in layers without experts."""
        self._experts: list[Program | None] = []
        self._others: list[Program] = []
        self._guesses: list[Program | None] = []
        self._kept: list[F32] = []
        """What recorded operations write to and nobody else reads."""
        self._likely: I32 = np.zeros_like(rows.chosen)
        recorder.embed(weights.embedding.table, self._ids, rows.x)
        for index, layer in enumerate(weights.layers):
            at = replace(self._pass, rows=rows.routing_into(self.chosen[index], self.gates[index]))
            at.until_routed(index, layer)
            self._others.append(recorder.program())
            self._experts.append(self._record_experts(index, at, recorder.program))
            self._guesses.append(self._record_guess(index + 1, recorder))
            at.add_experts(layer)
        recorder.rmsnorm(rows.x, weights.final_norm, spec.norm_eps, rows.normed)
        self._others.append(recorder.program())

    def _record_experts(self, index: int, at: LayerPass, program: Callable[[], Program]) -> Program | None:
        if self._weights.layers[index].router is None:
            return None
        assert self._pager is not None
        at.experts(self._pager.gate_up(index), self._pager.down(index), self._resident)
        return program()

    def _record_guess(self, index: int, recorder: Recorder) -> Program | None:
        """What the router of layer `index` would choose if attention there and the layer before's experts
        added nothing. The stream of a token changes little from layer to layer, so that is mostly right.
        """
        layer = self._weights.layers[index] if index < len(self._weights.layers) else None
        if layer is None or layer.router is None:
            return None
        spec, rows = self._pass.spec, self._pass.rows
        normed, gates = np.zeros_like(rows.normed), np.zeros_like(rows.gates)
        recorder.rmsnorm(rows.x, layer.ffn_norm, spec.norm_eps, normed)
        recorder.router(normed, layer.router, spec.top_k, spec.normalise_top_k, self._likely, gates)
        self._kept += [normed, gates]
        return recorder.program()

    def fits(self, kv: KvView) -> bool:
        """Whether these programs may serve sequences like this one."""
        own = self._kv
        return kv.pages is own.pages and kv.layout == own.layout and kv.table.shape == own.table.shape

    def run(self, token: int, position: int, kv: KvView, check: Callable[[], None]) -> F32:
        """The final normed row f32[1, D] (a view). `check` is called before each layer and may raise."""
        rows = self._pass.rows
        self._ids[0], self._position[0] = token, position
        self._ids[:] = self._weights.embedding.place(self._ids)
        np.copyto(self._kv.table, kv.table)
        try:
            for index, layer in enumerate(self._weights.layers):
                check()
                self._others[index].run()
                self._run_experts(index)
                self._pass.weigh_shared(layer)
        except BaseException:
            if self._pager is not None:
                self._pager.settle()
            raise
        self._others[-1].run()
        return rows.normed

    def _run_experts(self, index: int) -> None:
        program = self._experts[index]
        if program is None:
            return
        assert self._pager is not None
        for resident in self._pager.groups(index, self.chosen[index]):
            self._resident[:] = resident
            self._guess_next(index)
            program.run()

    def _guess_next(self, index: int) -> None:
        """Let the next layer's experts be read behind this one's: the disk has nothing else to do then."""
        program, pager = self._guesses[index], self._pager
        assert pager is not None
        if program is not None and pager.may_guess(index + 1):
            program.run()
            pager.guess(index + 1, self._likely)
