"""Which tensors of a file make up which block and vector of the model, checked by name, shape and type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile, TensorInfo
from ebbtide.engine.weights.codes import FLOAT_TYPES, format_of
from ebbtide.engine.weights.decode import TYPES
from ebbtide.kernels.layout import GROUP_COLS, MatrixShape

Kind = Literal["gate_up", "down"]
KINDS: tuple[Kind, Kind] = ("gate_up", "down")


class Part(NamedTuple):
    """A matrix of a block: `rows` rows of a tensor from `first_row` on, the tensor seen as [rows.., cols]."""

    tensor: TensorInfo
    first_row: int
    rows: int
    cols: int

    @property
    def shape(self) -> MatrixShape:
        return MatrixShape(self.rows, self.cols, format_of(self.tensor.type_name))


_IGNORED = ".attn_rot_embd"
"""End of the names of tensors that old converters wrote and nobody reads."""
Parts = tuple[Part, ...]
"""The matrices of one block, in the order of its views."""


@dataclass(frozen=True)
class ModelMap:
    """Blocks and vectors by name.

    dense: "embedding", "head" (unless tied), "blk.N.qkv", "blk.N.attn_out", "blk.N.gate_up", "blk.N.down",
    "blk.N.shared_gate_up", "blk.N.shared_down". vectors: tensors to be joined, e.g. "blk.N.qkv_bias".
    experts: per (layer, kind) the parts of every expert, which have equal shapes and types.
    """

    dense: dict[str, Parts]
    vectors: dict[str, tuple[TensorInfo, ...]]
    experts: dict[tuple[int, Kind], tuple[Parts, ...]]


class Mapper:
    """Collects the parts of a model while keeping account of the tensors used.

    Every method raises ModelError, naming the tensor, when it is missing, has another shape, or has a type
    that cannot become planes.
    """

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.dense: dict[str, Parts] = {}
        self.vectors: dict[str, tuple[TensorInfo, ...]] = {}
        self.experts: dict[tuple[int, Kind], tuple[Parts, ...]] = {}
        self._used: set[str] = set()

    def has(self, tensor: str) -> bool:
        return tensor in self.file.tensors

    def matrix(self, name: str, rows: int, cols: int) -> Part:
        """A whole tensor of rows x cols."""
        return Part(self._matrix_tensor(name, (rows, cols)), 0, rows, cols)

    def bank(self, name: str, experts: int, rows: int, cols: int) -> Parts:
        """One matrix per expert out of a tensor of experts x rows x cols."""
        tensor = self._matrix_tensor(name, (experts, rows, cols))
        return tuple(Part(tensor, expert * rows, rows, cols) for expert in range(experts))

    def block(self, name: str, *parts: Part) -> None:
        """Record a dense block."""
        self.dense[name] = parts

    def expert_blocks(self, layer: int, kind: Kind, *banks: Sequence[Part]) -> None:
        """Record the blocks of a layer's experts; each bank has one part per expert."""
        for first, *others in banks:
            for part in others:
                if part.shape != first.shape:
                    raise ModelError(
                        f"Tensor {part.tensor.name} has type {part.tensor.type_name}, "
                        f"but {first.tensor.name} has {first.tensor.type_name}",
                        hint="Use a file in which the experts of a layer have one type.",
                    )
        self.experts[layer, kind] = tuple(zip(*banks, strict=True))

    def vector(self, name: str, tensors: Sequence[str], *shapes: tuple[int, ...]) -> None:
        """Record tensors to be joined into one f32 array; `shapes` are theirs, rows first."""
        found = tuple(self._tensor(tensor, shape) for tensor, shape in zip(tensors, shapes, strict=True))
        for tensor in found:
            if tensor.type_name not in TYPES:
                raise _unusable(tensor)
        self.vectors[name] = found

    def finish(self) -> ModelMap:
        """The map. Raises ModelError for a tensor that was not used: without it answers would be wrong."""
        left = [name for name in self.file.tensors if not (name in self._used or name.endswith(_IGNORED))]
        if left:
            more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
            raise ModelError(
                f"{self.file.path.name} has a tensor that models of its architecture lack: {left[0]}{more}",
                hint="Use another GGUF of this model; answers without that tensor would be wrong.",
            )
        return ModelMap(self.dense, self.vectors, self.experts)

    def _matrix_tensor(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        tensor = self._tensor(name, shape)
        if tensor.type_name not in TYPES:
            raise _unusable(tensor)
        if shape[-1] % GROUP_COLS:
            raise ModelError(
                f"Tensor {name} has rows of {shape[-1]} weights; they must be a multiple of {GROUP_COLS}",
                hint="This model's dimensions are not supported.",
            )
        return tensor

    def _tensor(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        if name not in self.file.tensors:
            raise ModelError(
                f"{self.file.path.name} lacks the tensor {name}",
                hint="The file is incomplete or of another kind than it says; fetch it again.",
            )
        tensor = self.file.tensors[name]
        if _squeezed(tensor.shape) != _squeezed(shape):
            raise ModelError(
                f"Tensor {name} has shape {_text(tensor.shape)}, but the metadata asks for {_text(shape)}",
                hint="The file contradicts itself; fetch it again or use another GGUF of this model.",
            )
        self._used.add(name)
        return tensor


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without leading ones: some writers store a vector as [1, n]."""
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _text(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _unusable(tensor: TensorInfo) -> ModelError:
    usable = [name for name in TYPES if name not in FLOAT_TYPES]
    return ModelError(
        f"Tensor {tensor.name} has type {tensor.type_name}, which ebbtide cannot cut into bit-planes",
        hint=f"Use a file made of {', '.join(usable)} or float types, e.g. Q4_K_M or Q8_0.",
    )
