"""The linear kernels' numbers, step by step, where a long double holds an exact f32 product plus a sum."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.layout import MatrixFormat, ScaleKind
from ebbtide.kernels.ops import F32
from ebbtide.kernels.reference.planes import Weights

Wide = NDArray[np.longdouble]


def can_emulate() -> bool:
    """Long double with 64 bits of mantissa: a fused multiply-add of floats can be had by rounding once."""
    return bool(np.finfo(np.longdouble).nmant >= 63)


def _fma(a: F32, b: F32, c: F32) -> F32:
    wide = a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)
    return wide.astype(np.float32)


def _quantise(x: F32) -> tuple[NDArray[np.int64], F32]:
    """q[M, G, 32] and scale a[M, G]."""
    groups = x.reshape(x.shape[0], -1, 32)
    peak = np.abs(groups).max(axis=2)
    with np.errstate(divide="ignore"):
        inverse = np.where(peak == 0, np.float32(0), np.float32(1919) / peak).astype(np.float32)
    q = np.clip(np.rint(groups * inverse[..., None]), -1919, 1919)
    return q.astype(np.int64), (peak / np.float32(1919)).astype(np.float32)


def emulate(x: F32, weights: Weights, form: MatrixFormat) -> F32:
    """x W^T [M, N] in the kernels' order of operations with fused multiply-adds."""
    q, a = _quantise(x)
    rows, groups = a.shape
    parts = 2 if form.kind is ScaleKind.K8 else 1
    halves = q.reshape(rows, groups * parts, -1)
    # A table's entries plus 128 are codes like others.
    codes = weights.codes.numpy().astype(np.int64).reshape(len(weights.codes), groups * parts, -1)
    per_part = weights.scale.shape[1] // (groups * parts)
    out = np.zeros((rows, len(codes)), np.float32)
    for g in range(groups * parts):
        scale = weights.scale.numpy()[None, :, g * per_part]
        minimum = weights.minimum.numpy()[None, :, g * per_part]
        total, exact = halves[:, g].sum(axis=1)[:, None], halves[:, g] @ codes[:, g].T
        group_scale = a[:, g // parts, None]
        value = _group_value(exact, total, weights, form)
        out = _fma(value, np.asarray(group_scale * scale), out)
        if form.kind in (ScaleKind.HALF_MIN, ScaleKind.K6):
            out = _fma(np.asarray(total.astype(np.float32) * group_scale), minimum, out)
    return out


def _group_value(
    exact: NDArray[np.int64], total: NDArray[np.int64], weights: Weights, form: MatrixFormat
) -> F32:
    if weights.step == 1:
        return (exact - form.zero * total).astype(np.float32)
    offset = np.float32(-weights.offset) * total.astype(np.float32)
    return _fma(exact.astype(np.float32), np.float32(weights.step), offset)  # type: ignore[arg-type]
