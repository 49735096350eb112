"""One code per weight and its scales.

`to_float` turns codes into weights, with the products in the order that ggml uses, so at full width the
result equals its dequantisation bit for bit.
"""

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.layout import E8_BIAS, FORMATS, S6_BIAS, MatrixFormat, ScaleKind

U8 = NDArray[np.uint8]
F16 = NDArray[np.float16]
F32 = NDArray[np.float32]
T = TypeVar("T", bound=np.generic)


def _no_f16() -> F16:
    return np.empty((0, 0), np.float16)


def _no_u8() -> U8:
    return np.empty((0, 0), np.uint8)


@dataclass(frozen=True)
class Scales:
    """Scales of N rows; what an array holds depends on the format's kind, unused arrays have shape [0, 0].

    HALF      d[N, K/32]                     HALF_MIN  d, m[N, K/32]
    K6        d, m[N, K/256] (m is dmin), sc and mn u8[N, K/32] of 6 bits
    K8        d[N, K/256], sc u8[N, K/16]: the bits of an i8
    E8        sc u8[N, K/32]: exponents + E8_BIAS
    S6        d[N, K/256], sc u8[N, K/32]: sub-scales + S6_BIAS, of 6 bits
    """

    d: F16 = field(default_factory=_no_f16)
    m: F16 = field(default_factory=_no_f16)
    sc: U8 = field(default_factory=_no_u8)
    mn: U8 = field(default_factory=_no_u8)

    def rows(self, rows: slice) -> "Scales":
        """The scales of some rows."""

        def of(values: NDArray[T]) -> NDArray[T]:
            return values[rows] if values.size else values

        return Scales(of(self.d), of(self.m), of(self.sc), of(self.mn))

    def padded(self, extra: int) -> "Scales":
        """The same scales followed by `extra` rows of zeros."""

        def of(values: NDArray[T]) -> NDArray[T]:
            return np.pad(values, ((0, extra), (0, 0))) if values.size else values

        return Scales(of(self.d), of(self.m), of(self.sc), of(self.mn))


@dataclass(frozen=True)
class Codes:
    """N rows x K columns of codes u8[N, K] and their scales.

    `signal` and `noise` are sums of squares (of the weights, of what the codes lost); both 0 for types that
    lose nothing.
    """

    format: MatrixFormat
    codes: U8
    scales: Scales
    signal: float = 0.0
    noise: float = 0.0


FLOAT_TYPES = ("F32", "F16", "BF16")


def format_of(type_name: str) -> MatrixFormat:
    """The plane format of a GGUF type. Raises KeyError for a type that cannot become planes."""
    return FORMATS["G8"] if type_name in FLOAT_TYPES else FORMATS[type_name]


def to_float(format: MatrixFormat, codes: U8, scales: Scales, *, width: int = 8) -> F32:
    """Weights f32[N, K] of codes u8[N, K], of which the top `width` planes are used.

    Dropping t planes replaces the lost bits by their midpoint (2^t - 1) / 2, or takes the table of the width.
    """
    rows, cols = codes.shape
    values = _values(format, codes, min(width, format.planes))
    values = values.reshape(rows, cols // format.scale_cols, format.scale_cols)
    step, minimum = step_and_minimum(format, scales)
    values *= step[:, :, None]
    if minimum is not None:
        values += minimum[:, :, None]
    return values.reshape(rows, cols)


def _values(format: MatrixFormat, codes: U8, width: int) -> F32:
    """What the top `width` bits of codes stand for before they are scaled, f32[N, K]."""
    if format.own_tables:
        raise ValueError(f"{format.name}: what its codes stand for differs from block to block")
    dropped = format.planes - width
    values: F32
    if format.table:
        values = np.array(format.table_at(width), np.float32)[codes >> dropped]
        return values
    values = ((codes >> dropped) << dropped).astype(np.float32)
    values += np.float32((2**dropped - 1) / 2) - np.float32(format.zero)
    return values


def step_and_minimum(format: MatrixFormat, scales: Scales) -> tuple[F32, F32 | None]:
    """(step, minimum) f32[N, K / scale_cols]: w = step * (code - zero) + minimum."""
    if format.kind is ScaleKind.E8:
        return np.ldexp(np.float32(1), scales.sc.astype(np.int32) - E8_BIAS), None
    d = scales.d.astype(np.float32)
    if format.kind is ScaleKind.HALF:
        return d, None
    if format.kind is ScaleKind.HALF_MIN:
        return d, scales.m.astype(np.float32)
    if format.kind is ScaleKind.K8:
        return np.repeat(d, 16, axis=1) * scales.sc.view(np.int8).astype(np.float32), None
    if format.kind is ScaleKind.S6:
        return np.repeat(d, 8, axis=1) * (scales.sc.astype(np.float32) - np.float32(S6_BIAS)), None
    low = np.repeat(scales.m.astype(np.float32), 8, axis=1) * scales.mn.astype(np.float32)
    return np.repeat(d, 8, axis=1) * scales.sc.astype(np.float32), -low
