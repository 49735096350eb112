"""A made-up token and a made-up prompt, timed on any number of threads.

The token is a row of matrix-vector products, each in a parallel region as short as a model's, with a norm on
one thread between two of them: so the rate of the memory, the waits at the end of a region and cores slower
than others have the share in its time that they have in a real one's. The prompt is a few of the same
matrices, multiplied by many rows at once.

The weights are touched first by the thread that makes the trial, as a model's are: on a machine with several
memory nodes they lie on one of them, and what that costs is measured. Threads are not bound to processors.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ebbtide.kernels.cpu.ops import CpuOps
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import U8, BlockTable, Ops, Program, WorkspaceShape, contiguous_table

WIDTH = 2048
"""Rows and columns of a matrix: 2.25 MiB in four planes, about a layer's products in today's models."""
PROMPT_ROWS = 16
TOKEN_S, PROMPT_S = 0.008, 0.002
"""What a token and a prompt may take. Kernels too slow for all matrices get fewer: they do not wait for
memory in any case."""
FILL_S = 0.1
"""What the weights may take to be made: memory that is touched for the first time can be slow to come."""
_LEAST_PRODUCTS = 4
_WAKING_PRODUCTS = 2
_LAYOUT = block_layout([MatrixShape(WIDTH, WIDTH, FORMATS["Q4_0"])], page_bytes=0, floor_planes=1)
_SHAPE = WorkspaceShape(PROMPT_ROWS, WIDTH, WIDTH, 0, 1, 0, 16, 1, 64)


class Speed(NamedTuple):
    """Seconds; less is better."""

    token_s: float
    prompt_s: float


class Trial:
    """Times with the kernels of `isa`, on weights that lie in `buffer`. Close it to end its threads.

    How much a token and a prompt have to do follows from what `threads` threads can do at a time.
    Raises ValueError where not even a few matrices fit into `buffer`.
    """

    def __init__(self, isa: str, buffer: U8, threads: int) -> None:
        self._isa = isa
        self._tables = _fill(buffer)
        self._x = np.ones((PROMPT_ROWS, WIDTH), np.float32)
        self._norm = np.ones(WIDTH, np.float32)
        self._out = np.zeros((PROMPT_ROWS, WIDTH), np.float32)
        self._runners: dict[int, _Runner] = {}
        self.products, self.prompt_products = self._fit(threads)

    def time(self, threads: int) -> Speed:
        """One token and one prompt on `threads` threads, which are awake when the clock starts."""
        runner = self._runners.get(threads)
        if runner is None:
            runner = self._runners[threads] = self._runner(threads)
        runner.wake.run()
        return Speed(_seconds(runner.token.run), _seconds(runner.prompt.run))

    def close(self) -> None:
        """End all threads; no call may follow."""
        for runner in self._runners.values():
            runner.ops.close()
        self._runners.clear()

    def _fit(self, threads: int) -> tuple[int, int]:
        """How many products a token and a prompt have."""
        ops, one = self._ops(threads), self._tables[:1]
        token = self._record(ops, one, 1)
        token_s = min(_seconds(token.run) for _ in range(3))
        prompt_s = _seconds(self._record(ops, one, PROMPT_ROWS).run)
        ops.close()
        most = len(self._tables)
        products = min(most, max(_LEAST_PRODUCTS, int(TOKEN_S / token_s)))
        return products, min(most, max(1, int(PROMPT_S / prompt_s)))

    def _ops(self, threads: int) -> CpuOps:
        ops = CpuOps(self._isa, threads)
        ops.set_workspace(np.zeros(ops.workspace_bytes(_SHAPE), np.uint8))
        return ops

    def _runner(self, threads: int) -> "_Runner":
        ops = self._ops(threads)
        return _Runner(
            ops,
            wake=self._record(ops, self._tables[:_WAKING_PRODUCTS], 1),
            token=self._record(ops, self._tables[: self.products], 1),
            prompt=self._record(ops, self._tables[: self.prompt_products], PROMPT_ROWS),
        )

    def _record(self, ops: Ops, tables: list[BlockTable], rows: int) -> Program:
        recorder = ops.recorder()
        for table in tables:
            recorder.rmsnorm(self._x[:rows], self._norm, 1e-5, self._x[:rows])
            recorder.linear(self._x[:rows], table, self._out[:rows])
        return recorder.program()


class _Runner(NamedTuple):
    """Threads and what they run."""

    ops: CpuOps
    wake: Program
    token: Program
    prompt: Program


def _fill(buffer: U8) -> list[BlockTable]:
    """Matrices of any codes one behind the other, with scales of 1: as many as fit, or as `FILL_S` allows."""
    span, view = _LAYOUT.span_bytes, _LAYOUT.views[0]
    if len(buffer) < _LEAST_PRODUCTS * span:
        raise ValueError(f"{len(buffer)} bytes do not hold {_LEAST_PRODUCTS} matrices of {span}")
    codes = np.random.default_rng(0).integers(0, 256, WIDTH, np.uint8)
    end = time.perf_counter() + FILL_S
    tables: list[BlockTable] = []
    for start in range(0, len(buffer) - span + 1, span):
        if len(tables) >= _LEAST_PRODUCTS and time.perf_counter() > end:
            break
        block = buffer[start : start + span]
        block.reshape(-1, WIDTH)[:] = codes
        block[view.meta_offset : view.meta_offset + view.shape.meta_bytes].view(np.float16)[:] = 1.0
        tables.append(contiguous_table(_LAYOUT, block))
    return tables


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
