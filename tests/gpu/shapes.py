"""The three models whose shapes are measured."""

from dataclasses import dataclass, replace

from ebbtide.engine.memory.page_size import choose
from ebbtide.kernels.layout import FORMATS, BlockLayout, MatrixShape, block_layout

FLOOR_PLANES = 2


@dataclass(frozen=True)
class ModelShape:
    """Dimensions of a mixture of experts; every matrix in one format."""

    name: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    expert_d_ff: int
    vocab: int

    def dense(self, rows: int, cols: int, form: str) -> BlockLayout:
        """A dense matrix in one piece."""
        return block_layout([MatrixShape(rows, cols, FORMATS[form])], page_bytes=0, floor_planes=1)

    def expert(self, form: str) -> tuple[BlockLayout, BlockLayout]:
        """An expert's two blocks, in pages of the size that the engine would choose."""
        page_bytes = choose(
            lambda size: [(block, 1) for block in self._expert(form, size)], self.kv_bytes
        ).page_bytes
        gate_up, down = self._expert(form, page_bytes)
        return gate_up, down

    def _expert(self, form: str, page_bytes: int) -> list[BlockLayout]:
        across = MatrixShape(self.expert_d_ff, self.d_model, FORMATS[form])
        back = MatrixShape(self.d_model, self.expert_d_ff, FORMATS[form])
        return [
            block_layout(shapes, page_bytes=page_bytes, floor_planes=FLOOR_PLANES)
            for shapes in ([across, across], [back])
        ]

    @property
    def kv_bytes(self) -> int:
        """K and V of one position in one layer, BF16."""
        return 4 * self.kv_heads * self.head_dim


STARTER = ModelShape("starter", 30, 576, 9, 3, 64, 8, 2, 1536, 49152)
OLMOE = ModelShape("OLMoE", 16, 2048, 16, 16, 128, 64, 8, 1024, 50304)
QWEN = ModelShape("Qwen3-30B", 48, 2048, 32, 4, 128, 128, 8, 768, 151936)
MODELS = (STARTER, OLMOE, QWEN)


def tiny(model: ModelShape) -> ModelShape:
    """As small as the interpreter wants it."""
    return replace(
        model,
        layers=1,
        d_model=32,
        heads=1,
        kv_heads=1,
        head_dim=32,
        experts=3,
        top_k=1,
        expert_d_ff=32,
        vocab=50,
    )
