"""The starter as a PyTorch model: frozen dense base, trained routers and expert deltas."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from base_model import BaseModel, Shape
from moe_ffn import Deltas, Frozen, moe_ffn
from torch import Tensor, nn
from torch.nn import functional

EXPERTS = 8
USED = 2
ROUTER_INIT = 0.02


class Routing(NamedTuple):
    """One layer's routing: probabilities [tokens, experts] and the chosen experts [tokens, 2]."""

    probabilities: Tensor
    chosen: Tensor


class Cache:
    """Keys and values [layers, batch, kv heads, limit, head_dim], of which `filled` positions are real."""

    def __init__(self, shape: Shape, batch: int, limit: int) -> None:
        sizes = (shape.layers, batch, shape.kv_heads, limit, shape.head_dim)
        self.keys, self.values = torch.zeros(sizes), torch.zeros(sizes)
        self.filled = 0


class ExpertLayer(nn.Module):
    """Router [experts, width] and low-rank factors of one layer; B factors start at zero (no change)."""

    def __init__(self, width: int, ffn: int, rank: int, generator: torch.Generator) -> None:
        super().__init__()

        def normal(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator) * scale)

        self.router = normal(EXPERTS, width, scale=ROUTER_INIT)
        self.a_gate = normal(EXPERTS, rank, width, scale=1 / math.sqrt(width))
        self.b_gate = nn.Parameter(torch.zeros(EXPERTS, ffn, rank))
        self.a_up = normal(EXPERTS, rank, width, scale=1 / math.sqrt(width))
        self.b_up = nn.Parameter(torch.zeros(EXPERTS, ffn, rank))
        self.a_down = normal(EXPERTS, rank, ffn, scale=1 / math.sqrt(ffn))
        self.b_down = nn.Parameter(torch.zeros(EXPERTS, width, rank))

    def deltas(self) -> Deltas:
        return Deltas(self.a_gate, self.b_gate, self.a_up, self.b_up, self.a_down, self.b_down)

    def forward(self, x: Tensor, frozen: Frozen) -> tuple[Tensor, Routing]:
        logits = x @ self.router.T
        probabilities = torch.softmax(logits, dim=1)
        top, chosen = torch.topk(probabilities, USED, dim=1)
        weights = top / top.sum(dim=1, keepdim=True)
        return moe_ffn(x, weights, chosen, frozen, self.deltas()), Routing(probabilities, chosen)


class StarterModel(nn.Module):
    """With `rank` 0 it is the dense base itself."""

    def __init__(self, base: BaseModel, rank: int, seed: int = 0) -> None:
        super().__init__()
        self.base, self.rank, shape = base, rank, base.shape
        generator = torch.Generator().manual_seed(seed)
        self.experts = nn.ModuleList(
            ExpertLayer(shape.width, shape.ffn, rank, generator) for _ in range(shape.layers if rank else 0)
        )

    def forward(
        self, tokens: Tensor, positions: Tensor, cache: Cache | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, list[Routing]]:
        """Final normed hidden states [batch * n, width] of tokens [batch, n] at positions [batch, n].

        `cache`, if given, is extended in place; `mask` [batch, 1, n, all positions] is then required.
        """
        shape = self.base.shape
        x = self.base["token_embd.weight"][tokens]
        cos, sin = _rope(positions, shape.head_dim, shape.rope_base)
        routings: list[Routing] = []
        for layer in range(shape.layers):
            x = x + self._attention(layer, x, cos, sin, cache, mask)
            normed = self._norm(f"blk.{layer}.ffn_norm.weight", x).reshape(-1, shape.width)
            frozen = Frozen(*(self.base[f"blk.{layer}.ffn_{part}.weight"] for part in ("gate", "up", "down")))
            if self.rank:
                y, routing = self.experts[layer](normed, frozen)
                routings.append(routing)
            else:
                y = (functional.silu(normed @ frozen.gate.T) * (normed @ frozen.up.T)) @ frozen.down.T
            x = x + y.view_as(x)
        if cache is not None:
            cache.filled += tokens.shape[1]
        return self._norm("output_norm.weight", x).reshape(-1, shape.width), routings

    @property
    def head(self) -> Tensor:
        """[vocab, width], tied to the embedding."""
        return self.base["token_embd.weight"]

    def _norm(self, name: str, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.base[name], self.base.shape.norm_eps)

    def _attention(
        self, layer: int, x: Tensor, cos: Tensor, sin: Tensor, cache: Cache | None, mask: Tensor | None
    ) -> Tensor:
        shape, (batch, n, _) = self.base.shape, x.shape
        normed = self._norm(f"blk.{layer}.attn_norm.weight", x)

        def heads(part: str, count: int) -> Tensor:
            projected = normed @ self.base[f"blk.{layer}.attn_{part}.weight"].T
            return projected.view(batch, n, count, shape.head_dim).transpose(1, 2)

        query = _rotate(heads("q", shape.heads), cos, sin)
        keys, values = _rotate(heads("k", shape.kv_heads), cos, sin), heads("v", shape.kv_heads)
        if cache is not None:
            part = slice(cache.filled, cache.filled + n)
            cache.keys[layer][:, :, part], cache.values[layer][:, :, part] = keys, values
            keys, values = cache.keys[layer][:, :, : part.stop], cache.values[layer][:, :, : part.stop]
        group = shape.heads // shape.kv_heads
        if n == 1:  # decoding: a key head's query heads stand in for query positions, nothing is copied
            query = query.reshape(batch, shape.kv_heads, group, shape.head_dim)
            out = functional.scaled_dot_product_attention(query, keys, values, mask)
            out = out.reshape(batch, shape.heads, 1, shape.head_dim)
        else:
            keys, values = keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)
            out = functional.scaled_dot_product_attention(query, keys, values, mask, is_causal=mask is None)
        joined = out.transpose(1, 2).reshape(batch, n, shape.width)
        return joined @ self.base[f"blk.{layer}.attn_output.weight"].T


def _rope(positions: Tensor, head_dim: int, rope_base: float) -> tuple[Tensor, Tensor]:
    """cos and sin [batch, 1, n, head_dim / 2, 1 pair lane dropped]."""
    frequencies = rope_base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = positions.to(torch.float32).unsqueeze(-1) * frequencies
    return angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """GGUF's `llama` files hold rows permuted for adjacent pairs: lanes 2i and 2i + 1 turn together."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)
