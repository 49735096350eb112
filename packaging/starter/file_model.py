"""The finished GGUF as a model for evaluation: what was exported and quantised, not what was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from base_model import BaseModel
from gguf import GGUFReader
from gguf.quants import dequantize
from moe_ffn import Frozen, rows_of
from moe_model import EXPERTS, USED, Routing, StarterModel
from torch import Tensor, nn
from torch.nn import functional

PARTS = ("gate", "up", "down")


class FileExperts(nn.Module):
    """One layer's experts, dequantised one at a time on use."""

    def __init__(self, tensors: dict[str, Any], layer: int) -> None:
        super().__init__()
        self._router = torch.from_numpy(np.array(tensors[f"blk.{layer}.ffn_gate_inp.weight"].data))
        self._stacks = [tensors[f"blk.{layer}.ffn_{part}_exps.weight"] for part in PARTS]

    def _weights(self, expert: int) -> Frozen:
        stacks = (dequantize(stack.data[expert], stack.tensor_type) for stack in self._stacks)
        return Frozen(*(torch.from_numpy(np.asarray(stack, np.float32)) for stack in stacks))

    def forward(self, x: Tensor, frozen: Frozen) -> tuple[Tensor, Routing]:
        probabilities = torch.softmax(x @ self._router.T, dim=1)
        top, chosen = torch.topk(probabilities, USED, dim=1)
        shares = top / top.sum(dim=1, keepdim=True)
        y = torch.zeros_like(x)
        for expert in range(EXPERTS):
            rows, weights = rows_of(expert, chosen), self._weights(expert)
            inputs = x[rows.row]
            hidden = functional.silu(inputs @ weights.gate.T) * (inputs @ weights.up.T)
            y.index_add_(0, rows.row, (hidden @ weights.down.T) * shares[rows.row, rows.choice].unsqueeze(1))
        return y, Routing(probabilities, chosen)


class FileModel(StarterModel):
    """Attention, norms and head of the base (the file holds the same bytes), experts of the file."""

    def __init__(self, base: BaseModel, starter: Path) -> None:
        super().__init__(base, rank=0)
        tensors = {tensor.name: tensor for tensor in GGUFReader(starter).tensors}
        self.experts = nn.ModuleList(FileExperts(tensors, layer) for layer in range(base.shape.layers))
        self.rank = 1  # any rank but 0: use the experts
