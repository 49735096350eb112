"""Direct quantisation: the extremes of every group of weights become the extremes of its codes."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.weights.codes import F32, Codes, Scales, step_and_minimum
from ebbtide.kernels.layout import SUPER_COLS, MatrixFormat, ScaleKind

F64 = NDArray[np.float64]
_WITH_MINIMUM = (ScaleKind.HALF_MIN, ScaleKind.K6)


def min_max(form: MatrixFormat, weights: F32) -> Codes:
    """Weights f32[N, K] in an affine format of any number of planes, scales rounded as it keeps them.

    Formats without a minimum map the weight of largest magnitude to code 0, as ggml does for Q4_0; those of
    eight planes its magnitude to 127, as ggml does for Q8_0.
    """
    groups = weights.reshape(len(weights), -1, form.scale_cols).astype(np.float64)
    scales = _asymmetric(form, groups) if form.kind in _WITH_MINIMUM else _symmetric(form, groups)
    step, minimum = step_and_minimum(form, scales)
    above = groups - (0 if minimum is None else minimum[:, :, None])
    steps = np.where(step == 0, 1, step)[:, :, None]
    codes = np.clip(np.rint(above / steps) + form.zero, 0, (1 << form.planes) - 1)
    return Codes(form, codes.astype(np.uint8).reshape(weights.shape), scales)


def narrower(form: MatrixFormat, width: int) -> MatrixFormat:
    """The same format made with fewer planes."""
    zero = 0 if form.kind in _WITH_MINIMUM else 1 << (width - 1)
    return MatrixFormat(f"{form.name} of {width}", width, zero, form.kind)


def _symmetric(form: MatrixFormat, groups: F64) -> Scales:
    at = np.abs(groups).argmax(axis=2)[:, :, None]
    largest = np.take_along_axis(groups, at, 2)[:, :, 0]
    step = np.abs(largest) / 127 if form.planes == 8 else -largest / form.zero
    if form.kind is ScaleKind.HALF:
        return Scales(step.astype(np.float16))
    each = SUPER_COLS // form.scale_cols
    d, sub_scales = _shared(step, each, 127)
    return Scales(d, sc=sub_scales.astype(np.int8).view(np.uint8))


def _asymmetric(form: MatrixFormat, groups: F64) -> Scales:
    least = groups.min(axis=2)
    step = (groups.max(axis=2) - least) / ((1 << form.planes) - 1)
    if form.kind is ScaleKind.HALF_MIN:
        return Scales(step.astype(np.float16), least.astype(np.float16))
    each = SUPER_COLS // form.scale_cols
    (d, sc), (dmin, mn) = _shared(step, each, 63), _shared(np.maximum(-least, 0), each, 63)
    return Scales(d, dmin, sc.astype(np.uint8), mn.astype(np.uint8))


def _shared(values: F64, each: int, most: int) -> tuple[NDArray[np.float16], F64]:
    """(d f16 of every `each` groups, whole multiples of it for every group)."""
    supers = values.reshape(len(values), -1, each)
    d = (np.abs(supers).max(axis=2) / most).astype(np.float16)
    return d, np.rint(supers / d[:, :, None].astype(np.float64)).reshape(values.shape)
