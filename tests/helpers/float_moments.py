"""Second moments of the experts' inputs by the float reference: what "right" means for a calibration."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tests.helpers.float_reference import FloatReference, Tensor

F64 = NDArray[np.float64]


class FloatMoments(FloatReference):
    """Sums of g^2 x^2 over all passages that `logits` was called with, and of g^2: [layers, experts, ...]."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, bf16_kv=True)
        layers, experts = self.key("block_count"), self.key("expert_count")
        d_ff = self._bank("blk.0.", "gate", 0).shape[0]
        self.gate_up: F64 = np.zeros((layers, experts, self.key("embedding_length")))
        self.down: F64 = np.zeros((layers, experts, d_ff))
        self.mass: F64 = np.zeros((layers, experts))

    def experts(self, x: Tensor, at: str) -> Tensor:
        layer = int(at.split(".")[1])
        shares = (x @ self.tensors[f"{at}ffn_gate_inp.weight"].T).softmax(-1)
        gates, chosen = shares.topk(self.key("expert_used_count"), -1)
        if self.arch not in ("qwen2moe", "olmoe"):
            gates = gates / gates.sum(-1, keepdim=True)
        for expert in range(self.key("expert_count")):
            rows, slots = (chosen == expert).nonzero(as_tuple=True)
            gate, up = (self._bank(at, part, expert) for part in ("gate", "up"))
            hidden = torch.nn.functional.silu(x[rows] @ gate.T) * (x[rows] @ up.T)
            squares = gates[rows, slots, None].double() ** 2
            self.mass[layer, expert] += squares.sum().item()
            self.gate_up[layer, expert] += (squares * x[rows].double() ** 2).sum(0).numpy()
            self.down[layer, expert] += (squares * hidden.double() ** 2).sum(0).numpy()
        return super().experts(x, at)
