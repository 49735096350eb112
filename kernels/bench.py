"""Speed of the plane kernels here: `python -m ebbtide.kernels.bench [--isa avx2] [--book both]`.

Matrix-vector products are compared with the speed of plainly reading memory, measured in the same rounds.
"""

import ctypes
import time
from collections.abc import Callable

import click
import numpy as np

from ebbtide.kernels.cpu.library import Handle, address, best_isa, library
from ebbtide.kernels.cpu.ops import CpuOps
from ebbtide.kernels.layout import (
    FORMATS,
    TABLE_ZERO,
    BlockLayout,
    MatrixFormat,
    MatrixShape,
    ScaleKind,
    block_layout,
)
from ebbtide.kernels.ops import U8, BlockTable, WorkspaceShape, contiguous_table

_ROWS_OF_X = (2, 4, 8, 16, 32, 64, 128, 512)
BOOKS = {
    "affine": FORMATS["Q8_0"],
    "table": MatrixFormat("table", 8, TABLE_ZERO, ScaleKind.HALF, tuple(range(-128, 128))),
}
"""Formats of eight planes; no kernel looks at what is in a table."""


def _random_block(layout: BlockLayout) -> U8:
    """Random codes; scales of about 1."""
    block = np.random.default_rng(0).integers(0, 256, layout.span_bytes, np.uint8)
    for view in layout.views:
        meta = block[view.meta_offset : view.meta_offset + view.shape.meta_bytes]
        meta.view(np.float16)[:] = 1.0
    return block


def _table(rows: int, cols: int, form: MatrixFormat, width: int) -> BlockTable:
    layout = block_layout([MatrixShape(rows, cols, form)], page_bytes=0, floor_planes=1)
    table = contiguous_table(layout, _random_block(layout))
    table.widths[0] = width
    return table


def _seconds(call: Callable[[], object], rounds: int) -> float:
    """The best of `rounds`: what the machine can do when nothing else runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def _ops(isa: str, threads: int, rows: int, cols: int, out: int) -> CpuOps:
    ops = CpuOps(isa, threads)
    shape = WorkspaceShape(rows, cols, out, 0, 1, 0, 16, 1, 64)
    ops.set_workspace(np.zeros(ops.workspace_bytes(shape), np.uint8))
    return ops


def stream_bytes_per_s(isa: str, threads: int, buffer: U8, rounds: int) -> float:
    """Reading `buffer` on `threads` threads."""
    handle, read = Handle(isa, threads), library().eb_read_all
    read.argtypes, read.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_uint64
    return buffer.nbytes / _seconds(lambda: read(handle.context, address(buffer), buffer.nbytes), rounds)


def gemv_bytes_per_s(ops: CpuOps, table: BlockTable, width: int, rounds: int) -> float:
    """One row of x times the matrix; bytes = planes in use and scales."""
    shape = table.layout.views[0].shape
    x, out = np.ones((1, shape.cols), np.float32), np.empty((1, shape.rows), np.float32)
    table.widths[0] = width
    used = shape.meta_bytes + shape.plane_bytes * width
    return used / _seconds(lambda: ops.linear(x, table, out), rounds)


def gemm_macs_per_s(ops: CpuOps, table: BlockTable, rows: int, rounds: int) -> float:
    """`rows` rows of x times the matrix."""
    shape = table.layout.views[0].shape
    x, out = np.ones((rows, shape.cols), np.float32), np.empty((rows, shape.rows), np.float32)
    return rows * shape.rows * shape.cols / _seconds(lambda: ops.linear(x, table, out), rounds)


@click.command()
@click.option("--isa", default=None, help="portable, avx2, avxvnni, avx512 or amx; the best by default")
@click.option("--threads", default=2, show_default=True)
@click.option("--cols", default=576, show_default=True, help="K of the matrices")
@click.option("--rounds", default=15, show_default=True)
@click.option("--book", type=click.Choice([*BOOKS, "both"]), default="affine", show_default=True)
def main(isa: str | None, threads: int, cols: int, rounds: int, book: str) -> None:
    """Print GEMV GB/s per width and GEMM GMAC/s per number of rows."""
    chosen = isa or best_isa()
    big_rows = (1 << 27) // cols // 16 * 16
    ops = _ops(chosen, threads, max(_ROWS_OF_X), cols, big_rows)
    click.echo(f"{chosen}, {threads} threads, K = {cols}")
    for name in BOOKS if book == "both" else [book]:
        table = _table(big_rows, cols, BOOKS[name], 8)
        buffer = table.native["buffer"]
        assert isinstance(buffer, np.ndarray)
        for width in range(1, 9):
            roof = stream_bytes_per_s(chosen, threads, buffer, 3)
            speed = gemv_bytes_per_s(ops, table, width, rounds)
            weights = speed / (width / 8 + 1 / 16) / 1e9
            figures = f"{speed / 1e9:6.2f} GB/s, {weights:6.1f} G weights/s"
            share = f"{speed / roof:4.0%} of plain reading's {roof / 1e9:6.2f} GB/s"
            click.echo(f"{name} gemv width {width}: {figures}, {share}")
        small = _table(1536, cols, BOOKS[name], 8)
        for rows in _ROWS_OF_X:
            macs = gemm_macs_per_s(ops, small, rows, rounds) / 1e9
            click.echo(f"{name} gemm {rows:4d} rows: {macs:6.1f} GMAC/s")


if __name__ == "__main__":
    main()
