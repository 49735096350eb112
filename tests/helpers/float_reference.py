"""A float32 forward pass straight from a GGUF file, in plain torch: what "right" means for logits.

Written from the papers and the GGUF conventions, sharing no code with the engine: weights are dequantised by
the `gguf` package, attention is a full matrix, every token visits its experts in a loop.
"""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

Tensor = torch.Tensor


class FloatReference:
    """`logits(ids)` gives f32[len(ids), vocabulary] for llama (dense and experts), olmoe, qwen2moe and
    qwen3moe files. `bf16_kv`: keys and values are rounded as a cache of that format rounds them.
    """

    def __init__(self, path: Path, *, bf16_kv: bool = False) -> None:
        self.bf16_kv = bf16_kv
        reader = gguf.GGUFReader(str(path))
        self.fields: dict[str, Any] = {name: field.contents() for name, field in reader.fields.items()}
        self.arch: str = self.fields["general.architecture"]
        self.tensors: dict[str, Tensor] = {}
        for tensor in reader.tensors:
            values = gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type)
            self.tensors[tensor.name] = torch.from_numpy(np.array(values, np.float32))

    def key(self, name: str, default: Any = None) -> Any:
        return self.fields.get(f"{self.arch}.{name}", default)

    def norm(self, x: Tensor, name: str) -> Tensor:
        eps = self.key("attention.layer_norm_rms_epsilon")
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * self.tensors[name]

    def rope(self, x: Tensor) -> Tensor:
        """x [M, H, d]; interleaved pairs for llama, half-split for the others."""
        dim = x.shape[-1]
        frequency = self.key("rope.freq_base", 10000.0) ** (
            -torch.arange(0, dim, 2, dtype=torch.float64) / dim
        )
        if "rope_freqs.weight" in self.tensors:
            frequency = frequency / self.tensors["rope_freqs.weight"].double()
        angles = torch.outer(torch.arange(x.shape[0], dtype=torch.float64), frequency)
        cos, sin = angles.cos().float()[:, None], angles.sin().float()[:, None]
        if self.arch == "llama":
            a, b = x[..., 0::2], x[..., 1::2]
            return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)

    def attention(self, x: Tensor, at: str) -> Tensor:
        heads, kv_heads = self.key("attention.head_count"), self.key("attention.head_count_kv")
        parts = []
        for part, count in (("q", heads), ("k", kv_heads), ("v", kv_heads)):
            y = x @ self.tensors[f"{at}attn_{part}.weight"].T
            bias = self.tensors.get(f"{at}attn_{part}.bias")
            y = y if bias is None else y + bias
            if self.arch == "olmoe" and part != "v":
                y = self.norm(y, f"{at}attn_{part}_norm.weight")
            y = y.view(x.shape[0], count, -1)
            if self.arch == "qwen3moe" and part != "v":
                y = self.norm(y, f"{at}attn_{part}_norm.weight")
            parts.append(y if part == "v" else self.rope(y))
        q, k, v = (part.transpose(0, 1) for part in parts)
        if self.bf16_kv:
            k, v = k.bfloat16().float(), v.bfloat16().float()
        k, v = (part.repeat_interleave(heads // kv_heads, 0) for part in (k, v))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).triu(1)
        out: Tensor = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        return out.transpose(0, 1).flatten(1) @ self.tensors[f"{at}attn_output.weight"].T

    def glu(self, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        inner: Tensor = torch.nn.functional.silu(x @ gate.T) * (x @ up.T)
        return inner @ down.T

    def _bank(self, at: str, part: str, expert: int) -> Tensor:
        merged = self.tensors.get(f"{at}ffn_{part}_exps.weight")
        return self.tensors[f"{at}ffn_{part}.{expert}.weight"] if merged is None else merged[expert]

    def experts(self, x: Tensor, at: str) -> Tensor:
        shares = (x @ self.tensors[f"{at}ffn_gate_inp.weight"].T).softmax(-1)
        gates, chosen = shares.topk(self.key("expert_used_count"), -1)
        if self.arch not in ("qwen2moe", "olmoe"):
            gates = gates / gates.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for expert in range(self.key("expert_count")):
            rows, slots = (chosen == expert).nonzero(as_tuple=True)
            if rows.numel():
                gate, up, down = (self._bank(at, part, expert) for part in ("gate", "up", "down"))
                out[rows] += gates[rows, slots, None] * self.glu(x[rows], gate, up, down)
        if f"{at}ffn_gate_shexp.weight" in self.tensors:
            gate, up, down = (self.tensors[f"{at}ffn_{part}_shexp.weight"] for part in ("gate", "up", "down"))
            share = torch.sigmoid(x @ self.tensors[f"{at}ffn_gate_inp_shexp.weight"].reshape(-1, 1))
            out = out + share * self.glu(x, gate, up, down)
        return out

    @torch.inference_mode()
    def logits(self, ids: list[int]) -> Tensor:
        x = self.tensors["token_embd.weight"][torch.tensor(ids)]
        for index in range(self.key("block_count")):
            at = f"blk.{index}."
            x = x + self.attention(self.norm(x, at + "attn_norm.weight"), at)
            normed = self.norm(x, at + "ffn_norm.weight")
            if f"{at}ffn_gate_inp.weight" in self.tensors:
                x = x + self.experts(normed, at)
            else:
                x = x + self.glu(
                    normed, *(self.tensors[f"{at}ffn_{part}.weight"] for part in ("gate", "up", "down"))
                )
        x = self.norm(x, "output_norm.weight")
        return x @ self.tensors.get("output.weight", self.tensors["token_embd.weight"]).T
