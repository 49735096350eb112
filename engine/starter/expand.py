"""Dense base + delta -> the starter as a standard GGUF, one tensor in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType
from gguf.quants import dequantize
from numpy.typing import NDArray

from ebbtide.engine.starter.delta import PROJECTIONS, Delta
from ebbtide.engine.starter.progress import Progress
from ebbtide.engine.starter.quantise import QUANTISERS

USED_EXPERTS = 2
NAME = "Ebbtide Starter 8x135M"
FILE_TYPES = {
    "Q8_0": LlamaFileType.MOSTLY_Q8_0,
    "Q4_1": LlamaFileType.MOSTLY_Q4_1,
    "Q5_1": LlamaFileType.MOSTLY_Q5_1,
}
DROPPED = {"general.architecture", "general.finetune", "general.size_label", "general.basename"}


class Planned(NamedTuple):
    """A tensor of the output: its sizes and type are known before its bytes are made."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int
    kind: GGMLQuantizationType
    make: Callable[[], NDArray[Any]]


def expand(base: Path, delta: Delta, out: Path, quant: str, progress: Progress) -> None:
    """Write `out`; its bytes depend on the two inputs and `quant` only."""
    reader = GGUFReader(base)
    writer = GGUFWriter(out, "llama")
    try:
        _metadata(reader, writer, delta, quant)
        plan = list(_plan(reader, delta, quant))
        for tensor in plan:
            writer.add_tensor_info(tensor.name, tensor.shape, tensor.dtype, tensor.nbytes, tensor.kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        done, total = 0, sum(tensor.nbytes for tensor in plan)
        for tensor in plan:
            progress("expand", done, total)
            writer.write_tensor_data(tensor.make())
            done += tensor.nbytes
        progress("expand", total, total)
    finally:
        writer.close()


def _metadata(reader: GGUFReader, writer: GGUFWriter, delta: Delta, quant: str) -> None:
    changed: dict[str, tuple[Any, GGUFValueType]] = {
        "general.name": (NAME, GGUFValueType.STRING),
        "general.license": ("apache-2.0", GGUFValueType.STRING),
        "general.file_type": (int(FILE_TYPES[quant]), GGUFValueType.UINT32),
        "llama.expert_count": (delta.experts, GGUFValueType.UINT32),
        "llama.expert_used_count": (USED_EXPERTS, GGUFValueType.UINT32),
    }
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in DROPPED or name in changed:
            continue
        element = field.types[-1] if field.types[0] == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=element)
    for name, (value, kind) in changed.items():
        writer.add_key_value(name, value, kind)


def _plan(reader: GGUFReader, delta: Delta, quant: str) -> Iterator[Planned]:
    for tensor in reader.tensors:
        parts = tensor.name.split(".")
        projection = parts[2].removeprefix("ffn_") if len(parts) == 4 else ""
        if projection in PROJECTIONS:
            layer = int(parts[1])
            if projection == PROJECTIONS[0]:
                yield _router(layer, delta)
            yield _experts(tensor, layer, projection, delta, quant)
        else:
            yield _copied(tensor)


def _copied(tensor: Any) -> Planned:
    data: NDArray[Any] = tensor.data
    return Planned(
        tensor.name, data.shape, data.dtype, data.nbytes, tensor.tensor_type, lambda: np.array(data)
    )


def _router(layer: int, delta: Delta) -> Planned:
    router = delta.router(layer)
    name = f"blk.{layer}.ffn_gate_inp.weight"
    return Planned(name, router.shape, router.dtype, router.nbytes, GGMLQuantizationType.F32, lambda: router)


def _experts(tensor: Any, layer: int, projection: str, delta: Delta, quant: str) -> Planned:
    kind, quantise = QUANTISERS[quant]
    rows, columns = int(tensor.shape[1]), int(tensor.shape[0])  # GGUF lists the innermost size first
    row_bytes = quantise(np.zeros((1, columns), np.float32)).shape[1]
    shape = (delta.experts, rows, row_bytes)

    def make() -> NDArray[np.uint8]:
        base = (
            dequantize(tensor.data, tensor.tensor_type).reshape(rows, columns).astype(np.float32, copy=False)
        )
        factors = delta.factors(layer, projection)
        made = np.empty(shape, np.uint8)
        for expert in range(delta.experts):
            made[expert] = quantise(factors.applied(expert, base))
        return made

    name = f"blk.{layer}.ffn_{projection}_exps.weight"
    return Planned(name, shape, np.dtype(np.uint8), int(np.prod(shape)), kind, make)
