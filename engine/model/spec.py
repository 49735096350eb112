"""What a model is: its dimensions and the variants of its layers, read from a file's metadata."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class ModelSpec:
    """Everything the forward pass must know about a model but its weights."""

    architecture: str
    name: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    """Inner width of a dense feed-forward network; 0 in a model whose layers all have experts."""
    vocab: int
    """Rows of the embedding."""
    context: int
    """Positions the model was trained for."""
    norm_eps: float
    rope_base: float
    rope_dim: int
    """Leading dimensions of a head that are rotated; even."""
    rope_interleaved: bool
    """True: pairs are neighbours (2i, 2i + 1). False: pairs are (i, i + rope_dim / 2)."""
    rope_linear_scale: float = 1.0
    """Positions are divided by this."""
    rope_factors: bool = False
    """The file has a divisor f32[rope_dim / 2] for every frequency (vector "rope_factors")."""
    experts: int = 0
    top_k: int = 0
    expert_d_ff: int = 0
    shared_d_ff: int = 0
    """Inner width of the shared expert; 0 = none."""
    normalise_top_k: bool = False
    """The top-k gate weights are scaled to sum to 1."""
    activation: Literal["silu", "gelu"] = "silu"
    tied_head: bool = False
    """The embedding is also the output matrix."""
    qkv_bias: bool = False
    qk_norm: Literal["none", "head", "row"] = "none"
    """Before rotation, queries and keys are normed: each head, or all heads of a token as one row."""
    type_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of the file per GGUF type of its tensors."""

    @property
    def dense_ffn(self) -> bool:
        """True when the layers have no experts."""
        return self.experts == 0
