"""What narrower codes of a matrix cost: everything about it follows from how much lies at each code.

For a matrix w = s * v(code) + m and moments e[column], `mass[code]` is the sum of e * s^2 over all weights
with that code. A code of b bits keeps s and m and stands for some v_b, so

    error of width b = sum over weights of e * (w - w_b)^2 = sum over codes of mass[code] * (v - v_b)^2

and the entries v_b that make it least are the means of v, weighed by mass, of the codes that begin alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.layout import MatrixFormat, ScaleKind
from ebbtide.kernels.ops import F32, KernelError

F64 = NDArray[np.float64]


def check_moments(moments: F32 | None, cols: int) -> None:
    """Raises KernelError unless they are None or f32[cols], contiguous, finite and not negative."""
    if moments is None:
        return
    if moments.dtype != np.float32 or moments.shape != (cols,) or not moments.flags.c_contiguous:
        raise KernelError(f"code_mass: moments {moments.dtype} {moments.shape} are not float32 {(cols,)}")
    if not (np.isfinite(moments).all() and (moments >= 0).all()):
        raise KernelError("code_mass: moments have to be finite and not negative")


def code_values(form: MatrixFormat, width: int | None = None) -> F64:
    """What codes of `width` bits (all planes by default) stand for in the kernels, f64[2^width].

    In units of the scale: the middle of the bits that are not there, or the entries of the table.
    """
    if form.own_tables:
        raise KernelError(f"{form.name}: what its codes stand for differs from block to block")
    width = form.planes if width is None else width
    if form.table:
        return np.array(form.table_at(width), np.float64)
    step = 1 << (form.planes - width)
    return np.arange(1 << width, dtype=np.float64) * step + ((step - 1) / 2 - form.zero)


def energy_of(form: MatrixFormat, mass: F64, measured: float) -> float:
    """Sum of e * w^2: `measured` where weights have a minimum, else the masses tell it."""
    if form.kind in (ScaleKind.HALF_MIN, ScaleKind.K6):
        return measured
    return _total(mass, code_values(form) ** 2)


def _total(mass: F64, squares: F64) -> float:
    """Sum of mass * squares. Weights may be infinite: what is kept exactly costs nothing even then."""
    costly = squares > 0
    return float((mass[costly] * squares[costly]).sum())


@dataclass(frozen=True, eq=False)
class CodeMass:
    """Sums over one matrix, or over several of one format."""

    format: MatrixFormat
    mass: F64
    """f64[2^planes]"""
    energy: float
    """Sum of e * w^2: the error of leaving the matrix out."""

    def __add__(self, other: "CodeMass") -> "CodeMass":
        if other.format != self.format:
            raise ValueError(f"{self.format.name} and {other.format.name} have different codes")
        return CodeMass(self.format, self.mass + other.mass, self.energy + other.energy)

    def error(self, entries: F64) -> float:
        """Sum of e * (w - w_b)^2 where codes of b bits stand for `entries` f64[2^b]."""
        under = len(self.mass) // len(entries)
        squares = (code_values(self.format) - np.repeat(entries, under)) ** 2
        return _total(self.mass, squares)

    def damage(self) -> F64:
        """f64[planes + 1]: the error of every width with the kernels' entries; 0 planes leave nothing."""
        widths = range(1, self.format.planes + 1)
        return np.array([self.energy, *(self.error(code_values(self.format, width)) for width in widths)])

    def means(self, width: int) -> F64:
        """The best entries f64[2^width]; those of codes that no weight has are the kernels' own."""
        entries, mass = code_values(self.format, width), self.mass.reshape(1 << width, -1)
        beside = code_values(self.format).reshape(mass.shape) - entries[:, None]
        total = mass.sum(1)
        means: F64 = entries + np.divide(
            (mass * beside).sum(1), total, out=np.zeros_like(total), where=total > 0
        )
        return means
