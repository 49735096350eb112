"""The real mixtures of experts whose true shapes random models are written in."""

from dataclasses import dataclass, replace

from tests.helpers.tiny_models import Family, TinyShape


@dataclass(frozen=True)
class Mix:
    """Shares of a router score's variance; together 1.

    `static`: an expert's own bias. `recent` and `topic`: a mean over the last few and the last many tokens.
    `own`: the token itself. A text's repeated words make its means larger than those of independent tokens,
    for which the shares are true: what comes of them was measured, see `SHAPES`.
    """

    static: float
    recent: float
    topic: float
    own: float


@dataclass(frozen=True)
class MoeShape:
    """A model's sizes and how its routers behave. `windows`: tokens at which recent and topic have faded to
    1/e.
    """

    family: Family
    sizes: TinyShape
    vocab: int
    rope_base: float
    norm_eps: float
    mix: Mix
    windows: tuple[float, float] = (4.0, 64.0)

    @property
    def normalises_gates(self) -> bool:
        """Whether the chosen experts' gates are made to sum to one."""
        return self.family == "qwen3moe"

    def with_layers(self, layers: int) -> "MoeShape":
        """The same model with fewer layers. Raises ValueError unless 1 <= layers <= its own."""
        if not 1 <= layers <= self.sizes.layers:
            raise ValueError(f"{layers} layers asked for, of 1 to {self.sizes.layers}")
        return replace(self, sizes=replace(self.sizes, layers=layers))


OLMOE = TinyShape(16, 2048, 16, 16, 128, 1024, 64, 8, 1024, context=4096)
QWEN1_5 = TinyShape(24, 2048, 16, 16, 128, 5632, 60, 4, 1408, 5632, context=8192)
QWEN3 = TinyShape(48, 2048, 32, 4, 128, 6144, 128, 8, 768, context=40960)

SHAPES = {
    "olmoe-1b-7b": MoeShape("olmoe", OLMOE, 50304, 1e4, 1e-5, Mix(0.46, 0.14, 0.05, 0.35)),
    "qwen1.5-moe-a2.7b": MoeShape("qwen2moe", QWEN1_5, 151936, 1e6, 1e-6, Mix(0.27, 0.59, 0.02, 0.12)),
    "qwen3-30b-a3b": MoeShape("qwen3moe", QWEN3, 151936, 1e6, 1e-6, Mix(0.27, 0.59, 0.02, 0.12)),
}
"""By the name that the tool takes.

Aims, from published measurements: 44-48 % of a layer's experts carry over from token to token; 90 % of
Qwen3's choices fall on 45-51 % of its experts, OLMoE's on fewer; LRU misses 19 % at 40 % of Qwen3's experts.
`moe_routing.py` (400 tokens of text, 300 of answer) finds: carry-over in text and answer, share of experts
for 90 %, misses at 25, 40, 50, 75 %:

    olmoe-1b-7b                    46.4 47.9 | 42.8 | 27.1 11.7  6.7 1.6
    qwen1.5-moe-a2.7b, 6 layers    47.4 47.6 | 50.8 | 26.7 15.9 10.9 3.8
    qwen3-30b-a3b, 12 layers       47.2 46.9 | 49.9 | 26.1 15.9 11.0 4.0
"""


def tiny(shape: MoeShape) -> MoeShape:
    """The same family and routers, small enough for tests; an expert's d_ff is no multiple of 256."""
    kv_heads = 2 if shape.family == "qwen3moe" else 4
    d_ff = 160 if shape.family == "olmoe" else 640
    sizes = TinyShape(3, 256, 4, kv_heads, 64, d_ff, 16, 4, 160, 320, context=1024)
    return replace(shape, sizes=sizes, vocab=512)
