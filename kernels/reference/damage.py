"""What widths cost, plainly: weights at every width against the whole ones, and codes counted one by one."""

from dataclasses import replace

import numpy as np

from ebbtide.kernels.code_mass import F64, CodeMass, check_moments, energy_of
from ebbtide.kernels.layout import MatrixView
from ebbtide.kernels.ops import F32, BlockTable, KernelError
from ebbtide.kernels.reference.planes import Weights, load_view


def view_damage(table: BlockTable, index: int, view: int, moments: F32 | None) -> F64:
    """f64[planes of the view + 1]: sum of e[column] * (w - w_b)^2 at widths b = 0 .., where w_0 = 0.

    Every plane has to be there. Raises KernelError as `load_view` does.
    """
    form = table.layout.views[view].shape.format
    whole = _weights_at(table, index, view, form.planes).dense().numpy()
    weighed = np.ones(whole.shape[1]) if moments is None else moments.astype(np.float64)
    losses = [np.square(whole)]
    for width in range(1, form.planes + 1):
        losses.append(np.square(whole - _weights_at(table, index, view, width).dense().numpy()))
    return np.array([float((loss @ weighed).sum()) for loss in losses])


def code_mass(table: BlockTable, index: int, moments: F32 | None) -> list[CodeMass]:
    """As `DamageOps.code_mass`."""
    check_moments(moments, table.layout.cols)
    return [_view_mass(table, index, view, moments) for view in range(len(table.layout.views))]


def _view_mass(table: BlockTable, index: int, view: int, moments: F32 | None) -> CodeMass:
    form = table.layout.views[view].shape.format
    weights = _weights_at(_without_tables(table), index, view, form.planes)
    squares = np.repeat(np.square(weights.scale.double().numpy()), 16, axis=1)
    parts = squares if moments is None else squares * moments.astype(np.float64)
    codes = weights.codes.numpy()
    mass: F64 = np.bincount(codes.reshape(-1), parts.reshape(-1), 1 << form.planes).astype(np.float64)
    energy = float(view_damage(table, index, view, moments)[0])
    return CodeMass(form, mass, energy_of(form, mass, energy))


def _weights_at(table: BlockTable, index: int, view: int, width: int) -> Weights:
    """Of the first `width` planes, whatever more the block has."""
    if not 0 <= index < table.blocks:
        raise KernelError("an index is out of range")
    if table.widths[index] < width:
        raise KernelError("a chosen expert is not in fast memory")
    return load_view(replace(table, widths=np.full_like(table.widths, width), native={}), index, view)


def _without_tables(table: BlockTable) -> BlockTable:
    """The same block, read as if its codes were numbers."""

    def plain(view: MatrixView) -> MatrixView:
        return replace(view, shape=replace(view.shape, format=replace(view.shape.format, table=())))

    return replace(
        table, layout=replace(table.layout, views=tuple(map(plain, table.layout.views))), native={}
    )
