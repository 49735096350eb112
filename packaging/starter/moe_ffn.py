"""The trained part of one layer: top-2 experts as low-rank deltas on one shared, frozen FFN.

With G0 = x Wg^T and U0 = x Wu^T computed once for all experts, expert e's hidden state is
    h_e = silu(G0 + x Ag_e^T Bg_e^T) * (U0 + x Au_e^T Bu_e^T)
and, the down projection being linear, the layer's output is
    y = (sum_e w_e h_e) Wd^T + sum_e w_e (h_e Ad_e^T) Bd_e^T.
Forward keeps only x, G0 and U0; backward recomputes the rest expert by expert, so that each
expert's rows stay in cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor


class Frozen(NamedTuple):
    """Shared base weights: gate and up [ffn, width], down [width, ffn]."""

    gate: Tensor
    up: Tensor
    down: Tensor


class Deltas(NamedTuple):
    """Low-rank factors of all experts: a_* [experts, rank, in], b_* [experts, out, rank]."""

    a_gate: Tensor
    b_gate: Tensor
    a_up: Tensor
    b_up: Tensor
    a_down: Tensor
    b_down: Tensor


class Rows(NamedTuple):
    """Tokens routed to one expert: their rows [n] and which of the two choices it was [n]."""

    row: Tensor
    choice: Tensor


def rows_of(expert: int, chosen: Tensor) -> Rows:
    """Rows of `chosen` [tokens, 2] that hold `expert`."""
    row, choice = (chosen == expert).nonzero(as_tuple=True)
    return Rows(row, choice)


def moe_ffn(x: Tensor, weights: Tensor, chosen: Tensor, frozen: Frozen, deltas: Deltas) -> Tensor:
    """y [tokens, width] of x [tokens, width], weights [tokens, 2] and chosen [tokens, 2] (int64)."""
    return cast(Tensor, MoeFfn.apply(x, weights, chosen, frozen, *deltas))  # type: ignore[no-untyped-call]


class MoeFfn(torch.autograd.Function):
    """Gradients by x, weights and the deltas; the base is frozen."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weights: Tensor, chosen: Tensor, frozen: Frozen, *factors: Tensor
    ) -> Tensor:
        deltas = Deltas(*factors)
        gate0, up0 = x @ frozen.gate.T, x @ frozen.up.T
        mixed, low = torch.zeros_like(gate0), torch.zeros_like(x)
        for expert in range(deltas.a_gate.shape[0]):
            rows = rows_of(expert, chosen)
            weight = weights[rows.row, rows.choice].unsqueeze(1)
            rows_x = x[rows.row]
            gate = torch.addmm(gate0[rows.row], rows_x @ deltas.a_gate[expert].T, deltas.b_gate[expert].T)
            up = torch.addmm(up0[rows.row], rows_x @ deltas.a_up[expert].T, deltas.b_up[expert].T)
            hidden = torch.nn.functional.silu(gate, inplace=True).mul_(up).mul_(weight)
            low.index_add_(0, rows.row, (hidden @ deltas.a_down[expert].T) @ deltas.b_down[expert].T)
            mixed.index_add_(0, rows.row, hidden)
        ctx.save_for_backward(x, weights, chosen, gate0, up0, *factors)
        ctx.frozen = frozen
        return torch.addmm(low, mixed, frozen.down.T)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weights, chosen, gate0, up0, *factors = ctx.saved_tensors
        deltas, frozen, grad_y = Deltas(*factors), ctx.frozen, grads[0].contiguous()
        grad_mixed = grad_y @ frozen.down
        grad_gate0, grad_up0 = torch.zeros_like(gate0), torch.zeros_like(up0)
        grad_x, grad_weights = torch.zeros_like(x), torch.zeros_like(weights)
        grad = Deltas(*(torch.zeros_like(factor) for factor in factors))
        for expert in range(deltas.a_gate.shape[0]):
            rows = rows_of(expert, chosen)
            if rows.row.numel() == 0:
                continue
            weight = weights[rows.row, rows.choice].unsqueeze(1)
            rows_x, rows_grad = x[rows.row], grad_y[rows.row]
            low_gate, low_up = rows_x @ deltas.a_gate[expert].T, rows_x @ deltas.a_up[expert].T
            gate = torch.addmm(gate0[rows.row], low_gate, deltas.b_gate[expert].T)
            up = torch.addmm(up0[rows.row], low_up, deltas.b_up[expert].T)
            sigmoid = torch.sigmoid(gate)
            act = gate * sigmoid
            hidden = act * up
            low_grad = rows_grad @ deltas.b_down[expert]
            grad_hidden = torch.addmm(grad_mixed[rows.row], low_grad, deltas.a_down[expert])
            grad_weights[rows.row, rows.choice] = (hidden * grad_hidden).sum(1)
            grad_hidden.mul_(weight)
            grad.a_down[expert] = (low_grad * weight).T @ hidden
            grad.b_down[expert] = (rows_grad * weight).T @ (hidden @ deltas.a_down[expert].T)
            grad_up = grad_hidden * act
            # d silu(g) / dg = s + silu(g) (1 - s) with s = sigmoid(g)
            slope = torch.addcmul(act.add_(sigmoid), act - sigmoid, sigmoid, value=-1.0)
            grad_gate = grad_hidden.mul_(up).mul_(slope)
            grad.b_gate[expert] = grad_gate.T @ low_gate
            grad.b_up[expert] = grad_up.T @ low_up
            back_gate, back_up = grad_gate @ deltas.b_gate[expert], grad_up @ deltas.b_up[expert]
            grad.a_gate[expert] = back_gate.T @ rows_x
            grad.a_up[expert] = back_up.T @ rows_x
            grad_x.index_add_(0, rows.row, back_gate @ deltas.a_gate[expert] + back_up @ deltas.a_up[expert])
            grad_gate0.index_add_(0, rows.row, grad_gate)
            grad_up0.index_add_(0, rows.row, grad_up)
        grad_x.addmm_(grad_gate0, frozen.gate).addmm_(grad_up0, frozen.up)
        return (grad_x, grad_weights, None, None, *grad)
