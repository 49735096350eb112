"""Speed of attention here: `python -m ebbtide.kernels.bench_attention [--isa avx2] [--threads 2]`.

Decode reads every layer's K and V once per round from more memory than the caches hold, and is compared with
plainly reading memory in the same rounds. Prefill is one layer, in chunks, causal from position 0.
"""

import statistics
import time
from collections.abc import Callable

import click
import numpy as np

from ebbtide.kernels.bench import stream_bytes_per_s
from ebbtide.kernels.cpu.library import best_isa
from ebbtide.kernels.cpu.ops import CpuOps
from ebbtide.kernels.ops import F32, I32, U8, KvLayout, Pages, WorkspaceShape

_CONTEXTS = (1024, 4096, 8192)
_PREFILL_ROWS = (512, 2048)
_COLD_BYTES = 192 << 20


def _page_bytes(kv: KvLayout) -> int:
    return -(-4 * kv.heads * kv.head_dim * kv.tokens // 4096) * 4096


def _filled_pages(kv: KvLayout, count: int) -> tuple[U8, Pages]:
    """Pages of random bf16 values between 2^-14 and 2 of either sign."""
    words = np.random.default_rng(0).integers(0, 1 << 16, count * _page_bytes(kv) // 2, np.uint16)
    memory = (words & 0x87FF | 0x3800).view(np.uint8)
    return memory, Pages(np.array([memory.ctypes.data], np.uint64), count, _page_bytes(kv))


def _seconds(call: Callable[[], object], rounds: int) -> tuple[float, float]:
    """(median, best)."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), min(times)


def _ops(isa: str, threads: int, rows: int, heads: int, kv: KvLayout) -> CpuOps:
    ops = CpuOps(isa, threads)
    shape = WorkspaceShape(rows, 32, 32, 0, 1, 32, max(_CONTEXTS), heads, kv.head_dim)
    ops.set_workspace(np.zeros(ops.workspace_bytes(shape), np.uint8))
    return ops


def decode_seconds(ops: CpuOps, heads: int, kv: KvLayout, context: int, rounds: int) -> tuple[float, float]:
    """(median, best) seconds of one row over one layer of `context` tokens, not in any cache."""
    runs = -(-context // kv.tokens)
    layers = max(1, _COLD_BYTES // (runs * _page_bytes(kv)))
    memory, pages = _filled_pages(kv, layers * runs)
    shuffled = np.random.default_rng(1).permutation(layers * runs).astype(np.int32)
    tables = np.ascontiguousarray(shuffled.reshape(layers, runs))
    q, out = np.ones((1, heads, kv.head_dim), np.float32), np.empty((1, heads * kv.head_dim), np.float32)
    position = np.array([context - 1], np.int32)

    def all_layers() -> None:
        for table in tables:
            ops.attention(q, position, table, kv, pages, kv.head_dim**-0.5, out)

    median, best = _seconds(all_layers, rounds)
    assert memory.nbytes and np.isfinite(out).all()
    return median / layers, best / layers


def prefill_seconds(
    ops: CpuOps, heads: int, kv: KvLayout, rows: int, chunk: int, rounds: int
) -> tuple[float, float]:
    """(median, best) seconds of one layer for `rows` rows from position 0, `chunk` rows a call."""
    runs = -(-rows // kv.tokens)
    memory, pages = _filled_pages(kv, runs)
    table: I32 = np.arange(runs, dtype=np.int32)
    q = np.random.default_rng(2).standard_normal((rows, heads, kv.head_dim)).astype(np.float32)
    out: F32 = np.empty((rows, heads * kv.head_dim), np.float32)
    positions = np.arange(rows, dtype=np.int32)

    def whole() -> None:
        for i in range(0, rows, chunk):
            part = slice(i, i + chunk)
            ops.attention(q[part], positions[part], table, kv, pages, kv.head_dim**-0.5, out[part])

    median_and_best = _seconds(whole, rounds)
    assert memory.nbytes and np.isfinite(out).all()
    return median_and_best


@click.command()
@click.option("--isa", default=None, help="portable, avx2, avxvnni, avx512 or amx; the best by default")
@click.option("--threads", default=2, show_default=True)
@click.option("--heads", default=9, show_default=True)
@click.option("--kv-heads", default=3, show_default=True)
@click.option("--head-dim", default=64, show_default=True)
@click.option("--tokens", default=48, show_default=True, help="tokens of a page")
@click.option("--chunk", default=256, show_default=True, help="rows of a prefill call")
@click.option("--rounds", default=7, show_default=True)
def main(
    isa: str | None,
    threads: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    tokens: int,
    chunk: int,
    rounds: int,
) -> None:
    """Print decode GB/s per context and prefill milliseconds and GFLOP/s per number of rows."""
    kv = KvLayout(kv_heads, head_dim, tokens)
    chosen = isa or best_isa()
    ops = _ops(chosen, threads, chunk, heads, kv)
    cold, _ = _filled_pages(kv, _COLD_BYTES // _page_bytes(kv))
    click.echo(
        f"{chosen}, {threads} threads, {heads}/{kv_heads} heads of {head_dim}, pages of {tokens} tokens"
    )
    for context in _CONTEXTS:
        roof = stream_bytes_per_s(chosen, threads, cold, 3) / 1e9
        median, best = decode_seconds(ops, heads, kv, context, rounds)
        speed, top = (4e-9 * context * kv_heads * head_dim / seconds for seconds in (median, best))
        click.echo(
            f"decode at {context}: {1e6 * median:7.1f} us a layer, {speed:5.2f} GB/s"
            f" (best {top:5.2f}), read {roof:5.2f} GB/s"
        )
    for rows in _PREFILL_ROWS:
        median, best = prefill_seconds(ops, heads, kv, rows, chunk, rounds)
        flops = 2.0 * rows * (rows + 1) * heads * head_dim
        click.echo(
            f"prefill {rows} rows: {1e3 * median:7.2f} ms a layer, {flops / median / 1e9:5.1f} GFLOP/s"
            f" (best {flops / best / 1e9:5.1f})"
        )


if __name__ == "__main__":
    main()
