"""RMS norm as the specification."""

import numpy as np
import torch
from numpy.typing import NDArray


def rmsnorm(
    x: NDArray[np.float32], weight: NDArray[np.float32], eps: float, out: NDArray[np.float32]
) -> None:
    """out = x / sqrt(mean(x^2) + eps) * weight for each row of x f32[M, D]; weight f32[D]; out may be x."""
    rows = torch.from_numpy(np.ascontiguousarray(x)).double()
    inverse = torch.rsqrt((rows * rows).mean(dim=-1, keepdim=True) + eps)
    out[...] = (rows * inverse * torch.from_numpy(weight).double()).float().numpy()
