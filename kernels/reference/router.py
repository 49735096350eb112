"""Router as the specification: softmax over all experts, then the k best, lower index first among equals."""

import numpy as np
import torch
from numpy.typing import NDArray


def router_probabilities(logits: torch.Tensor) -> torch.Tensor:
    """Softmax of each row in float64.

    NaN counts as -inf, +inf as the largest f32; a row with nothing above -inf becomes uniform.
    """
    largest = torch.finfo(torch.float32).max
    clean = torch.nan_to_num(logits.double(), nan=-torch.inf, posinf=largest, neginf=-torch.inf)
    dead = torch.isneginf(clean).all(dim=-1, keepdim=True)
    return torch.softmax(torch.where(dead, torch.zeros_like(clean), clean), dim=-1)


def select(probabilities: torch.Tensor, top_k: int, normalise: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(indices [M, k], weights [M, k]) of the k largest, lower index first; weights sum to 1 if asked."""
    order = torch.sort(probabilities, dim=-1, descending=True, stable=True)
    weights, indices = order.values[:, :top_k], order.indices[:, :top_k]
    return indices, weights / weights.sum(dim=-1, keepdim=True) if normalise else weights


def router(
    x: NDArray[np.float32],
    w: NDArray[np.float32],
    top_k: int,
    normalise: bool,
    idx: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Route rows x f32[M, D] by w f32[E, D]: writes idx i32[M, k] and weights f32[M, k], best first."""
    logits = (torch.from_numpy(np.ascontiguousarray(x)).double() @ torch.from_numpy(w).double().T).float()
    chosen, gates = select(router_probabilities(logits), top_k, normalise)
    idx[...] = chosen.to(torch.int32).numpy()
    weights[...] = gates.float().numpy()
