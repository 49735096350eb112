"""Any-precision codes of a matrix: a code book of its own, with a table for each width.

A weight is w = scale * entry, with a scale for each group of 32 columns and entries of 8 bits. The codes of
b bits have 2^b entries, chosen for the least

    sum over the weights of E[x_j^2] * (w - w_b)^2

and the first bits of a code are its code at fewer bits (nested_parts.py). Codes rise with the weights, so
plane 0 is the most significant bit, and tables never fall, as the kernels want them (kernels/layout.py).

Everything is found on a histogram of w / scale in quarters of an entry's step, whose masses are whole
numbers: their sums are exact, so a book has the same bits however its matrix is taken apart.

Scales are those of G8 (`float_types.group_scales`: the largest magnitude of a group is entry 127). Scales
from the root mean square of a group are 0.6 to 4 dB worse at widths 3 to 6: the largest weight of each
group, which costs most, is then anywhere. Entries of 8 bits are fine enough for six planes; with seven and
eight, codes that are the integers themselves (G8) are better.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.weights.codes import F16, F32, U8
from ebbtide.engine.weights.nested_parts import F64, I64, nested_edges, part_means
from ebbtide.kernels.layout import GROUP_COLS, MAX_PLANES, OWN_FORMATS, TABLE_ZERO, MatrixFormat

I8 = NDArray[np.int8]

SEED_WIDTH = 3
_LEVELS = 127
_PER_STEP = 4
"""Bins a step of entries."""
_BINS = 256 * _PER_STEP
_EXACT_BITS = 52
"""Sums of whole numbers below two to this power are exact in f64, with a bit to spare."""
_PIECE_WEIGHTS = 1 << 17


@dataclass(frozen=True, eq=False)
class CodeBook:
    """What the codes of one matrix stand for at every width."""

    edges: I64
    """i64[2^planes + 1], in bins: a weight's code is the part that it lies in."""
    tables: tuple[I8, ...]
    """tables[b - 1] i8[2^b]: entries of the codes of b bits; they never fall."""
    errors: F64
    """f64[planes + 1]: the sum above for every width, that of no codes at all (w_0 = 0) first. Weights count
    as the middles of their bins."""

    @property
    def planes(self) -> int:
        return len(self.tables)

    @property
    def format(self) -> MatrixFormat:
        """Of a matrix with a book of its own."""
        return OWN_FORMATS[f"AP{self.planes}"]

    def tables_bytes(self) -> U8:
        """u8[2 * 2^planes] for `MatrixView.tables_offset`."""
        unused = np.full(2, -TABLE_ZERO, np.int16)
        return (np.concatenate([unused, *self.tables]) + TABLE_ZERO).astype(np.uint8)

    def encode(self, weights: F32, scales: F16) -> U8:
        """Codes u8[N, K] of weights f32[N, K] with scales f16[N, K / 32]."""
        codes = np.searchsorted(self.edges, np.arange(_BINS), side="right") - 1
        return codes.astype(np.uint8)[_bins(weights, scales)]

    def decode(self, codes: U8, scales: F16, width: int) -> F32:
        """Weights f32[N, K] of the first `width` bits of codes, 1 .. planes."""
        weights: F32 = self.tables[width - 1].astype(np.float32)[codes >> (self.planes - width)]
        weights *= np.repeat(scales.astype(np.float32), GROUP_COLS, axis=1)
        return weights


def code_book(
    weights: F32, scales: F16, moments: F32 | None = None, *, planes: int, seed_width: int = SEED_WIDTH
) -> CodeBook:
    """The code book of weights f32[N, K] with scales f16[N, K / 32] and moments E[x_j^2] f32[K].

    Moments of None are 1 each. The codes of `seed_width` bits are the best there are: a wider seed makes wide
    codes better and narrow ones worse, by a tenth of a dB or two. Raises ValueError for widths that there are
    not, and for moments that are infinite, negative or not K.
    """
    if not 1 <= planes <= MAX_PLANES or seed_width < 1:
        raise ValueError(f"{planes} planes from a seed of {seed_width} bits: 1 to {MAX_PLANES} planes exist")
    importance = _importance(moments, weights.shape[1])
    units = _units(scales, importance)
    mass = _histogram(weights, scales, importance, units)
    edges = nested_edges(mass, planes, seed_width)
    tables = _tables(mass, edges, planes)
    return CodeBook(edges, tables, _errors(mass, edges, tables) / (units or 1.0))


def _importance(moments: F32 | None, cols: int) -> F64:
    """f64[K], not all of them 0."""
    if moments is None:
        return np.ones(cols)
    if moments.shape != (cols,) or not (np.isfinite(moments).all() and (moments >= 0).all()):
        raise ValueError(f"moments {moments.shape} have to be {(cols,)}, finite and not negative")
    return moments.astype(np.float64) if moments.any() else np.ones(cols)


def _bins(weights: F32, scales: F16) -> NDArray[np.int16]:
    """The bin i16[N, K] of each weight; 0 lies in the middle one."""
    rows, cols = weights.shape
    step = scales.astype(np.float32)[:, :, None]
    inverse = np.divide(np.float32(_PER_STEP), step, out=np.zeros_like(step), where=step > 0)
    found = np.rint(weights.reshape(rows, cols // GROUP_COLS, GROUP_COLS) * inverse)
    return (np.clip(found, -_BINS // 2, _BINS // 2 - 1) + _BINS // 2).astype(np.int16).reshape(rows, cols)


def _units(scales: F16, importance: F64) -> float:
    """What a mass of 1 is multiplied with, so that whole numbers are fine enough; 0 for a matrix of zeros."""
    largest = float(np.square(scales.astype(np.float64)).max()) * float(importance.max())
    weights = len(scales) * len(importance)
    return float(1 << (_EXACT_BITS - weights.bit_length())) / largest if largest else 0.0


def _histogram(
    weights: F32, scales: F16, importance: F64, units: float, piece_weights: int = _PIECE_WEIGHTS
) -> F64:
    """f64[bins]: how much importance * scale^2 * units lies at each bin, in whole numbers.

    A weight counts one at least: those whose inputs were never seen get codes too. Groups of zeros count
    nothing.
    """
    rows, cols = weights.shape
    squares = np.square(scales.astype(np.float64))
    total, each = np.zeros(_BINS), max(1, piece_weights // cols)
    for first in range(0, rows, each):
        piece = slice(first, first + each)
        by_group = squares[piece, :, None]
        mass = np.rint(by_group * (importance.reshape(-1, GROUP_COLS) * units))
        np.copyto(mass, 1.0, where=(mass < 1) & (by_group > 0))
        bins = _bins(weights[piece], scales[piece])
        total += np.bincount(bins.reshape(-1), mass.reshape(-1), _BINS)
    return total


def _tables(mass: F64, edges: I64, planes: int) -> tuple[I8, ...]:
    """Rounded means. A code that no weight has stands for what the one before it does."""
    return tuple(_entries(mass, edges[:: 1 << (planes - width)]) for width in range(1, planes + 1))


def _entries(mass: F64, edges: I64) -> I8:
    means, filled = part_means(mass, edges)
    if not filled.any():
        return np.zeros(len(means), np.int8)
    entries = np.clip(np.rint((means - _BINS // 2) / _PER_STEP), -128, _LEVELS).astype(np.int8)
    nearest = np.maximum.accumulate(np.where(filled, np.arange(len(means)), filled.argmax()))
    return entries[nearest]


def _errors(mass: F64, edges: I64, tables: tuple[I8, ...]) -> F64:
    """f64[planes + 1]: sums of mass * (what a weight is - what it counts as)^2, in units of the scales."""
    values = (np.arange(_BINS) - _BINS // 2) / _PER_STEP
    codes = np.searchsorted(edges, np.arange(_BINS), side="right") - 1
    planes = len(tables)
    kept = [table.astype(np.float64)[codes >> (planes - width)] for width, table in enumerate(tables, 1)]
    return np.array([float((mass * (values - near) ** 2).sum()) for near in (np.zeros(_BINS), *kept)])
