"""Attention, KV pages, norm, RoPE and router of the compiled library: checks, then one C call each."""

import ctypes
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.cpu.library import address, library
from ebbtide.kernels.ops import F32, I32, KernelError, KvLayout, Pages, WorkspaceShape

_POINTER, _I32, _I64, _F32 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_float

_ARGUMENTS = {
    "eb_rmsnorm": (_POINTER, _POINTER, _F32, _POINTER, _I64, _I64),
    "eb_rope": (_POINTER, _I64, _I32, _I32, _I32, _POINTER, _POINTER, _I64, _I32, _POINTER, _I32),
    "eb_kv_write": (_POINTER, _I64, _POINTER, _I64, _POINTER, _I32, _POINTER, _POINTER, _I64),
    "eb_attention": (_POINTER, _I64, _POINTER, _I32, _I32, _F32, _POINTER, _POINTER, _I64, _POINTER),
    "eb_router": (_POINTER, _POINTER, _I32, _I32, _I64, _I32, _I32, _POINTER, _POINTER),
}


class _KvMemory(ctypes.Structure):
    """`KvMemory` of kv.h."""

    _fields_ = (
        ("slab_bases", _POINTER),
        ("slabs", _I64),
        ("pages_per_slab", _I64),
        ("page_bytes", _I64),
        ("heads", _I32),
        ("head_dim", _I32),
        ("tokens", _I32),
    )


def declare(lib: ctypes.CDLL) -> None:
    """Tell ctypes the argument types of this module's functions."""
    for name, arguments in _ARGUMENTS.items():
        getattr(lib, name).argtypes = (_POINTER, *arguments)


def attention_workspace_bytes(shape: WorkspaceShape, threads: int) -> int:
    """Scratch of the largest of these operations; attention's share does not grow with the context."""
    lib = library()
    for function in (lib.eb_attention_workspace, lib.eb_router_workspace):
        function.restype = _I64
    attention = lib.eb_attention_workspace(shape.max_rows, shape.heads, shape.head_dim, threads)
    router = lib.eb_router_workspace(shape.max_rows, shape.experts)
    return max(int(attention), int(router))


class AttentionOps(ABC):
    """The half of `Ops` that is not about plane matrices; mixed into a `Handle`."""

    _kv_key: tuple[KvLayout, Pages] | None = None
    _kv_memory: _KvMemory

    def rmsnorm(self, x: F32, weight: F32, eps: float, out: F32) -> None:
        """See `Ops.rmsnorm`."""
        rows, columns = x.shape
        if weight.shape != (columns,) or out.shape != x.shape:
            raise KernelError(f"rmsnorm: x {x.shape}, weight {weight.shape} and out {out.shape} do not match")
        self._call("eb_rmsnorm", _dense(x), _dense(weight), eps, _dense(out), rows, columns)

    def rope(self, x: F32, cos: F32, sin: F32, positions: I32, interleaved: bool) -> None:
        """See `Ops.rope`."""
        start, stride = _strided(x)
        rows, heads, head_dim = x.shape
        table_rows, pairs = cos.shape
        if sin.shape != cos.shape or positions.shape != (rows,) or 2 * pairs > head_dim:
            raise KernelError(
                f"rope: x {x.shape}, cos {cos.shape}, sin {sin.shape}, positions {positions.shape}"
            )
        self._call(
            "eb_rope",
            *(start, stride, rows, heads, head_dim, _dense(cos), _dense(sin), table_rows, pairs),
            *(_dense(positions, np.int32), interleaved),
        )

    def kv_write(self, k: F32, v: F32, positions: I32, block_table: I32, kv: KvLayout, pages: Pages) -> None:
        """See `Ops.kv_write`; bf16 rounds to nearest even, a NaN stays a NaN."""
        rows = len(positions)
        if k.shape != (rows, kv.heads, kv.head_dim) or v.shape != k.shape:
            raise KernelError(f"kv_write: k {k.shape}, v {v.shape} are not {(rows, kv.heads, kv.head_dim)}")
        memory = self._memory(kv, pages)
        self._call(
            "eb_kv_write",
            *(*_strided(k), *_strided(v), _dense(positions, np.int32), rows),
            *(memory, _dense(block_table, np.int32), len(block_table)),
        )

    def attention(
        self, q: F32, positions: I32, block_table: I32, kv: KvLayout, pages: Pages, scale: float, out: F32
    ) -> None:
        """See `Ops.attention`; H is a multiple of kv.heads, d a multiple of 16."""
        rows, heads, head_dim = q.shape
        if head_dim != kv.head_dim or positions.shape != (rows,) or out.shape != (rows, heads * head_dim):
            raise KernelError(f"attention: q {q.shape}, positions {positions.shape}, out {out.shape}, {kv}")
        memory = self._memory(kv, pages)
        self._call(
            "eb_attention",
            *(*_strided(q), _dense(positions, np.int32), rows, heads, scale),
            *(memory, _dense(block_table, np.int32), len(block_table), _dense(out)),
        )

    def router(self, x: F32, w: F32, top_k: int, normalise: bool, idx: I32, weights: F32) -> None:
        """See `Ops.router`; NaN logits count as -inf, a row without any other becomes uniform."""
        rows, columns = x.shape
        experts = w.shape[0]
        if w.shape[1] != columns or idx.shape != (rows, top_k) or weights.shape != idx.shape:
            raise KernelError(f"router: x {x.shape}, w {w.shape}, idx {idx.shape}, weights {weights.shape}")
        self._call(
            "eb_router",
            *(_dense(x), _dense(w), rows, experts, columns, top_k, normalise),
            *(_dense(idx, np.int32), _dense(weights)),
        )

    @abstractmethod
    def _call(self, name: str, *arguments: object) -> None:
        """Do, or write down, the C operation `name`. Raises KernelError."""

    def _memory(self, kv: KvLayout, pages: Pages) -> int:
        """Address of the C description of these pages, kept until other pages are named."""
        key = self._kv_key
        if key is None or key[0] is not kv or key[1] is not pages:
            if kv.format != "bf16":
                raise KernelError(f"KV pages in format {kv.format!r} are not supported yet; use bf16")
            bases = _dense(pages.slab_bases, np.uint64)
            places = (len(pages.slab_bases), pages.pages_per_slab, pages.page_bytes)
            self._kv_memory = _KvMemory(bases, *places, kv.heads, kv.head_dim, kv.tokens)
            self._kv_key = (kv, pages)
        return ctypes.addressof(self._kv_memory)


def _dense(array: NDArray[np.generic], kind: type[np.generic] = np.float32) -> int:
    """Address of a C-contiguous array of `kind`."""
    if array.dtype != kind or not array.flags.c_contiguous:
        raise KernelError(
            f"expected a contiguous array of {kind.__name__}, got {array.dtype} {array.strides}"
        )
    return address(array)


def _strided(x: F32) -> tuple[int, int]:
    """(address, row stride in floats) of x f32[M, H, d] whose rows are contiguous."""
    rows, heads, head_dim = x.shape
    if x.flags.c_contiguous and x.dtype == np.float32:
        return address(x), heads * head_dim
    row, head, value = x.strides
    dense_row = (value == 4 or head_dim == 1) and (head == 4 * head_dim or heads == 1)
    if x.dtype != np.float32 or not dense_row or (rows > 1 and (row % 4 or row < 4 * heads * head_dim)):
        raise KernelError(f"expected rows of contiguous float32 heads, got {x.dtype} {x.shape} {x.strides}")
    return address(x), row // 4
