"""What a model file says about itself: its header and its float tensors. Imports numpy: import it lazily."""

import math
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ebbtide.engine.gguf import GgufFile, open_gguf
from ebbtide.engine.model.families import map_model
from ebbtide.engine.model.mapping import Part
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.weights.codes import FLOAT_TYPES
from ebbtide.engine.weights.decode import tensor_type
from ebbtide.engine.weights.float_types import sqnr_db
from ebbtide.engine.weights.open import read_spec
from ebbtide.engine.weights.pack_index import PackIndex, Records, bank_tensor
from ebbtide.engine.weights.pack_source import is_pack, read_index

SAMPLE_BYTES = 4 << 20
"""Of each float matrix at most so much is converted to say what the conversion costs."""
EXPERT_MARK = "_exps."


@dataclass(frozen=True)
class ModelFacts:
    """`show MODEL`. Counts are weights, sizes are bytes of the file."""

    name: str
    path: str
    architecture: str
    packed: bool
    any_precision: bool
    """A pack whose experts have codes of its own, near the weights of the file that it was made from."""
    size_bytes: int
    parameters: int
    expert_parameters: int
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    context: int
    vocabulary: int
    dense_bytes: int
    """Bytes of all that is not an expert."""
    expert_bytes: int
    kv_bytes_per_token: int
    """In BF16, over all layers."""
    type_bytes: dict[str, int]
    float_error_db: dict[str, float | None]
    """For each float type: signal to noise of its 8-plane codes, worst matrix; None = nothing was lost."""

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


def read_facts(path: Path) -> ModelFacts:
    """Read the header, check that ebbtide knows the model, measure the float tensors. Raises ModelError."""
    file = open_gguf(path)
    spec = read_spec(file)
    packed = is_pack(file)
    parts = [] if packed else _matrix_parts(file, spec)
    index = read_index(file) if packed else None
    weights = _model_weights(file) if index is None else _pack_weights(index)
    expert_bytes = sum(file.tensors[name].nbytes for name in weights.expert_tensors)
    return ModelFacts(
        name=spec.name,
        path=str(path),
        architecture=spec.architecture,
        packed=packed,
        any_precision=index is not None and index.books is not None,
        size_bytes=file.size_bytes,
        parameters=weights.dense + weights.experts,
        expert_parameters=weights.experts,
        layers=spec.layers,
        d_model=spec.d_model,
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        experts=spec.experts,
        top_k=spec.top_k,
        context=spec.context,
        vocabulary=spec.vocab,
        dense_bytes=sum(tensor.nbytes for tensor in file.tensors.values()) - expert_bytes,
        expert_bytes=expert_bytes,
        kv_bytes_per_token=2 * 2 * spec.layers * spec.kv_heads * spec.head_dim,
        type_bytes=dict(spec.type_bytes),
        float_error_db=_float_errors(path, parts),
    )


@dataclass(frozen=True)
class _Weights:
    """How many there are, and which tensors hold those of experts."""

    dense: int
    experts: int
    expert_tensors: list[str]


def _model_weights(file: GgufFile) -> _Weights:
    names = [name for name in file.tensors if EXPERT_MARK in name]
    experts = sum(prod(file.tensors[name].shape) for name in names)
    return _Weights(sum(prod(tensor.shape) for tensor in file.tensors.values()) - experts, experts, names)


def _pack_weights(index: PackIndex) -> _Weights:
    """A pack's tensors are planes: the shapes of the weights are in its index."""
    dense = sum(map(_count, index.dense.values())) + sum(map(prod, index.vectors.values()))
    experts = sum(_count(records) for layer in index.experts for records in layer.values())
    names = [bank_tensor(layer, kind) for layer, kinds in enumerate(index.experts) for kind in kinds]
    return _Weights(dense, experts * index.spec.experts, names)


def _count(records: Records) -> int:
    return sum(record.rows * record.cols for record in records)


def _matrix_parts(file: GgufFile, spec: ModelSpec) -> list[Part]:
    """All matrices that become planes, each tensor once."""
    model = map_model(file, spec)
    blocks = [*model.dense.values(), *(parts for experts in model.experts.values() for parts in experts)]
    unique = {(part.tensor.name, part.first_row): part for parts in blocks for part in parts}
    return list(unique.values())


def _float_errors(path: Path, parts: list[Part]) -> dict[str, float | None]:
    worst: dict[str, float] = {}
    for part in parts:
        kind = part.tensor.type_name
        if kind in FLOAT_TYPES:
            worst[kind] = min(worst.get(kind, math.inf), _error_db(path, part))
    return {kind: value if math.isfinite(value) else None for kind, value in worst.items()}


def _error_db(path: Path, part: Part) -> float:
    kind = tensor_type(part.tensor.type_name)
    row_bytes = part.cols // kind.block_cols * kind.block_bytes
    rows = max(1, min(part.rows, SAMPLE_BYTES // row_bytes))
    offset = part.tensor.offset + part.first_row * row_bytes
    raw = np.fromfile(path, np.uint8, rows * row_bytes, offset=offset)
    codes = kind.decode(raw, rows, part.cols)
    return sqnr_db(codes.signal, codes.noise)
