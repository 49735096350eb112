"""The float reference of a model whose experts have only the top planes of their codes."""

from math import prod
from pathlib import Path

import numpy as np
import torch

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.weights.codes import step_and_minimum
from ebbtide.engine.weights.decode import decode
from tests.helpers.float_reference import FloatReference


def narrowed(path: Path, width: int, *, bf16_kv: bool = False) -> FloatReference:
    """The bits below the first `width` planes of each expert's code are replaced by half of their greatest
    value, (2^t - 1) / 2, or the codes by their mean where a table says what they stand for; types with no
    more planes stay as they are.
    """
    reference, file = FloatReference(path, bf16_kv=bf16_kv), open_gguf(path)
    for name, tensor in file.tensors.items():
        if "_exps." not in name:
            continue
        raw = np.fromfile(path, np.uint8, tensor.nbytes, offset=tensor.offset)
        codes = decode(raw, tensor.type_name, prod(tensor.shape[:-1]), tensor.shape[-1])
        lost = (1 << max(codes.format.planes - width, 0)) - 1
        step, _ = step_and_minimum(codes.format, codes.scales)
        change = lost / 2 - (codes.codes & lost)
        if codes.format.table and lost:
            table = np.array(codes.format.table)
            means = np.rint(table.reshape(-1, lost + 1).mean(axis=1))
            change = means[codes.codes // (lost + 1)] - table[codes.codes]
        moved = change * np.repeat(step, codes.format.scale_cols, axis=1)
        reference.tensors[name] += torch.from_numpy(moved.astype(np.float32)).reshape(tensor.shape)
    return reference
