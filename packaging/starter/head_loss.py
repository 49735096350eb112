"""Cross-entropy over a large vocabulary in chunks, without keeping the logits."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

CHUNK_ROWS = 256  # 256 x 49,152 float32 logits are 48 MiB


def head_loss(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """Sum of -log p(target) in nats over hidden [n, width] and targets [n], tied head [vocab, width]."""
    return cast(Tensor, HeadLoss.apply(hidden, head, targets))  # type: ignore[no-untyped-call]


class HeadLoss(torch.autograd.Function):
    """Makes the gradient by `hidden` in the forward pass: both need the logits, and the head is frozen."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        total = torch.zeros(())
        grad_hidden = torch.empty_like(hidden)
        for start in range(0, hidden.shape[0], CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            log_p = torch.log_softmax(hidden[part] @ head.T, dim=1)
            total -= log_p.gather(1, targets[part].unsqueeze(1)).sum()
            grad_hidden[part] = log_p.exp_() @ head
            grad_hidden[part] -= head[targets[part]]
        ctx.save_for_backward(grad_hidden)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (grad_hidden,) = ctx.saved_tensors
        return grad_hidden * grads[0], None, None


@torch.no_grad()
def token_losses(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    """-log p(target) in nats, [n], for evaluation."""
    losses = []
    for start in range(0, hidden.shape[0], CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS)
        losses.append(
            torch.nn.functional.cross_entropy(hidden[part] @ head.T, targets[part], reduction="none")
        )
    return torch.cat(losses)
