"""Rotary position embedding as the specification."""

import numpy as np
import torch
from numpy.typing import NDArray


def rope(
    x: NDArray[np.float32],
    cos: NDArray[np.float32],
    sin: NDArray[np.float32],
    positions: NDArray[np.int32],
    interleaved: bool,
) -> None:
    """Rotate the first r values of every head of x f32[M, H, d] in place; the rest of a head stays as it is.

    cos and sin are f32[P, r / 2]; row m uses their row positions[m]. Interleaved pairs are (0, 1),
    (2, 3), ...; otherwise value i is paired with i + r / 2.
    """
    half = cos.shape[1]
    first, second = (
        (slice(0, 2 * half, 2), slice(1, 2 * half, 2))
        if interleaved
        else (
            slice(0, half),
            slice(half, 2 * half),
        )
    )
    heads = torch.from_numpy(np.ascontiguousarray(x)).double()
    rows = positions.astype(np.int64)
    c, s = (torch.from_numpy(table[rows]).double()[:, None, :] for table in (cos, sin))
    a, b = heads[:, :, first], heads[:, :, second]
    x[:, :, first] = (a * c - b * s).float().numpy()
    x[:, :, second] = (a * s + b * c).float().numpy()
