"""Plane matrices and element-wise operations of the compiled library: arguments checked, then one C call."""

import ctypes
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.cpu.block import native_block
from ebbtide.kernels.cpu.library import address, library
from ebbtide.kernels.ops import F32, I32, U8, Activation, BlockTable, KernelError, WorkspaceShape

_POINTER, _INT, _I64, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_size_t
_ACTIVATIONS: dict[str, int] = {"silu": 0, "gelu": 1}
_FLOAT32 = np.dtype(np.float32)
_ARGUMENTS = {
    "eb_linear": (_POINTER, _POINTER, _POINTER, _I64, _INT, _POINTER, _I64, _INT, _POINTER, _INT),
    "eb_moe": (*(_POINTER,) * 7, _INT, _INT, _INT),
    "eb_embed": (_POINTER, _POINTER, _POINTER, _INT, _POINTER),
    "eb_glu": (_POINTER, _POINTER, _POINTER, _INT, _INT, _INT),
    "eb_combine": (_POINTER, _POINTER, _POINTER, _POINTER, _INT, _INT, _INT),
    "eb_linear_workspace": (_POINTER, _INT, _INT),
    "eb_moe_workspace": (_POINTER, _INT, _INT, _INT, _INT, _INT),
}


def declare(lib: ctypes.CDLL) -> None:
    """Tell ctypes the argument types of this module's functions."""
    for name, arguments in _ARGUMENTS.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = _SIZE if name.endswith("_workspace") else _INT


def linear_workspace_bytes(context: ctypes.c_void_p, shape: WorkspaceShape) -> int:
    """Scratch of the largest of these operations."""
    lib = library()
    declare(lib)
    cols = -(-max(shape.max_cols, shape.d_ff) // 32) * 32
    hidden = -(-shape.d_ff // 32) * 32
    linear = int(lib.eb_linear_workspace(context, shape.max_rows, cols))
    if shape.experts == 0:
        return linear
    moe = lib.eb_moe_workspace(context, shape.max_rows, cols, shape.experts, shape.top_k, hidden)
    return max(linear, int(moe))


class LinearOps(ABC):
    """The half of `Ops` that is about plane matrices. A subclass says what becomes of a call."""

    @abstractmethod
    def _call(self, name: str, *arguments: object) -> None:
        """Do, or write down, the C operation `name`. Raises KernelError."""

    def linear(
        self,
        x: F32,
        w: BlockTable,
        out: F32,
        *,
        index: int = 0,
        bias: F32 | None = None,
        accumulate: bool = False,
    ) -> None:
        """See `Ops.linear`; rows of x and out may be further apart than they are long."""
        rows, cols = x.shape
        layout = w.layout
        if cols != layout.cols or out.shape != (rows, layout.rows):
            raise KernelError(f"linear: x {x.shape}, out {out.shape}, block {(layout.rows, layout.cols)}")
        if bias is not None and bias.shape != (layout.rows,):
            raise KernelError(f"linear: bias {bias.shape} is not {(layout.rows,)}")
        biases = None if bias is None else _at(bias)
        self._call("eb_linear", native_block(w), *_rows(x), rows, *_rows(out), index, biases, accumulate)

    def moe(
        self,
        x: F32,
        idx: I32,
        chosen: U8,
        gate_up: BlockTable,
        down: BlockTable,
        out: F32,
        activation: Activation,
    ) -> None:
        """See `Ops.moe`."""
        rows, cols = x.shape
        top_k = idx.shape[1]
        wanted = (rows, top_k, down.layout.rows)
        if len(idx) != rows or out.shape != wanted or cols != gate_up.layout.cols:
            raise KernelError(f"moe: x {x.shape}, idx {idx.shape}, out {out.shape}, K {gate_up.layout.cols}")
        if chosen.shape != (gate_up.blocks,):
            raise KernelError(f"moe: chosen {chosen.shape} is not {(gate_up.blocks,)}")
        blocks = native_block(gate_up), native_block(down)
        arrays = _at(x), _at(idx, np.int32), _at(chosen, np.uint8), _at(out)
        self._call("eb_moe", *blocks, *arrays, rows, top_k, _ACTIVATIONS[activation])

    def combine(self, pair: F32, weights: F32, out: F32) -> None:
        """See `Ops.combine`."""
        rows, top_k, cols = pair.shape
        if weights.shape != (rows, top_k) or out.shape != (rows, cols):
            raise KernelError(f"combine: pair {pair.shape}, weights {weights.shape}, out {out.shape}")
        self._call("eb_combine", _at(pair), _at(weights), _at(out), rows, top_k, cols)

    def glu(self, gate_up: F32, out: F32, activation: Activation) -> None:
        """See `Ops.glu`."""
        rows, cols = out.shape
        if gate_up.shape != (rows, 2 * cols):
            raise KernelError(f"glu: gate_up {gate_up.shape}, out {out.shape}")
        self._call("eb_glu", _at(gate_up), _at(out), rows, cols, _ACTIVATIONS[activation])

    def embed(self, w: BlockTable, ids: I32, out: F32) -> None:
        """See `Ops.embed`."""
        if out.shape != (len(ids), w.layout.cols):
            raise KernelError(f"embed: ids {ids.shape}, out {out.shape}, columns {w.layout.cols}")
        self._call("eb_embed", native_block(w), _at(ids, np.int32), len(ids), _at(out))


def _at(array: NDArray[np.generic], kind: type[np.generic] = np.float32) -> int:
    """Address of a C-contiguous array of `kind`."""
    if array.dtype != kind or not array.flags.c_contiguous:
        raise KernelError(f"expected contiguous {kind.__name__}, got {array.dtype} strides {array.strides}")
    return address(array)


def _rows(x: F32) -> tuple[int, int]:
    """(address, row stride in floats) of f32[M, N] whose rows are contiguous."""
    rows, cols = x.shape
    if x.flags.c_contiguous and x.dtype == _FLOAT32:
        return address(x), cols
    row, value = x.strides
    if x.dtype != _FLOAT32 or value != 4 or (rows > 1 and (row % 4 or row < 4 * cols)):
        raise KernelError(f"expected rows of contiguous float32, got {x.dtype} {x.shape} {x.strides}")
    return address(x), row // 4
