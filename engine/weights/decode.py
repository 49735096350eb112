"""The GGUF types that can become planes: block sizes and decoders, one table."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights import float_types, group_types, super_types
from ebbtide.engine.weights.codes import U8, Codes


class TensorType(NamedTuple):
    """Blocks of `block_cols` weights in `block_bytes` bytes; `decode(raw bytes, rows, cols)`."""

    block_cols: int
    block_bytes: int
    decode: Callable[[U8, int, int], Codes]


TYPES: dict[str, TensorType] = {
    "Q4_0": TensorType(32, 18, group_types.decode_q4_0),
    "Q4_1": TensorType(32, 20, group_types.decode_q4_1),
    "Q5_0": TensorType(32, 22, group_types.decode_q5_0),
    "Q5_1": TensorType(32, 24, group_types.decode_q5_1),
    "Q8_0": TensorType(32, 34, group_types.decode_q8_0),
    "IQ4_NL": TensorType(32, 18, group_types.decode_iq4_nl),
    "MXFP4": TensorType(32, 17, group_types.decode_mxfp4),
    "Q3_K": TensorType(256, 110, super_types.decode_q3_k),
    "Q4_K": TensorType(256, 144, super_types.decode_q4_k),
    "Q5_K": TensorType(256, 176, super_types.decode_q5_k),
    "Q6_K": TensorType(256, 210, super_types.decode_q6_k),
    "IQ4_XS": TensorType(256, 136, super_types.decode_iq4_xs),
    "F32": TensorType(1, 4, float_types.decode_f32),
    "F16": TensorType(1, 2, float_types.decode_f16),
    "BF16": TensorType(1, 2, float_types.decode_bf16),
}


def row_bytes(type_name: str, cols: int) -> int:
    """Bytes of one row of `cols` weights. Raises ModelError for a type that cannot become planes."""
    kind = tensor_type(type_name)
    return cols // kind.block_cols * kind.block_bytes


def tensor_type(type_name: str) -> TensorType:
    """The entry of a type. Raises ModelError, naming it, for one that cannot become planes."""
    if type_name not in TYPES:
        raise ModelError(
            f"Weights of type {type_name} cannot be read as bit-planes",
            hint="Use a file whose weights have one of the types " + ", ".join(TYPES) + ".",
        )
    return TYPES[type_name]


def decode(raw: U8, type_name: str, rows: int, cols: int) -> Codes:
    """Codes of whole rows; `raw` u8[rows * row_bytes]. Lossless for the quantised types."""
    expected = rows * row_bytes(type_name, cols)
    if raw.size != expected:
        raise ModelError(
            f"{rows} x {cols} weights of type {type_name} take {expected} bytes, not {raw.size}",
            hint="The file is damaged; fetch it again.",
        )
    return TYPES[type_name].decode(np.ascontiguousarray(raw), rows, cols)
