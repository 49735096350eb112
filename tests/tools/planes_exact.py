"""Every weight matrix of a model file against what is read back from its pack, weight by weight.

    python tests/tools/planes_exact.py MODEL.gguf PACK [--json]

The file's side is dequantised by the `gguf` library; the pack's side goes through the reader that the engine
uses, checksums included. Quantised types must not differ in a single bit; float types are 8-plane codes, so
their signal-to-error ratio is printed, in dB. Exits 1 when a quantised weight differs.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, quants
from numpy.typing import NDArray

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.memory.anonymous import anonymous
from ebbtide.engine.model.families import map_model, spec_from_gguf
from ebbtide.engine.model.mapping import ModelMap, Part
from ebbtide.engine.weights.codes import FLOAT_TYPES
from ebbtide.engine.weights.pack_source import PackSource, open_pack
from ebbtide.engine.weights.planes import dequantise
from ebbtide.kernels.layout import BlockLayout

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]


def blocks(pack: PackSource, weights: ModelMap) -> Iterator[tuple[tuple[Part, ...], BlockLayout, U8]]:
    """Every block: its matrices in the file, its layout, its bytes as the pack gives them."""
    for name, parts in weights.dense.items():
        layout = pack.dense_layout(name)
        block = anonymous(max(layout.span_bytes, 1))
        pack.read_dense(name, block[: layout.span_bytes])
        yield parts, layout, block
    for (layer, kind), experts in weights.experts.items():
        layout = pack.expert_layout(layer, kind)
        for expert, parts in enumerate(experts):
            block = anonymous(layout.span_bytes)
            pages = range(0, layout.span_bytes, layout.page_bytes)
            targets = [(block.ctypes.data + start, layout.page_bytes) for start in pages]
            pack.read_expert(layer, expert, kind, 0, len(layout.extent_ends) - 1, targets)
            yield parts, layout, block


class Tally:
    """Sums over the matrices of one tensor type."""

    def __init__(self) -> None:
        self.weights = self.different = 0
        self.signal = self.error = 0.0

    def add(self, wanted: F32, found: F32) -> None:
        self.weights += wanted.size
        self.different += int((wanted.view(np.uint32) != found.view(np.uint32)).sum())
        self.signal += float(np.square(wanted, dtype=np.float64).sum())
        self.error += float(np.square(wanted.astype(np.float64) - found).sum())

    @property
    def error_db(self) -> float | None:
        """Signal over error; None where there is no error."""
        return 10 * float(np.log10(self.signal / self.error)) if self.error else None


def compare(model: Path, pack_path: Path) -> dict[str, Tally]:
    file = open_gguf(model)
    weights = map_model(file, spec_from_gguf(file))
    raw = {tensor.name: tensor for tensor in GGUFReader(model).tensors}
    tallies: dict[str, Tally] = {}
    pack = open_pack(pack_path)
    for parts, layout, block in blocks(pack, weights):
        for part, view in zip(parts, layout.views, strict=True):
            tensor = raw[part.tensor.name]
            rows = tensor.data.reshape(-1, tensor.data.shape[-1])[part.first_row :][: part.rows]
            wanted = quants.dequantize(rows, GGMLQuantizationType(tensor.tensor_type))
            tallies.setdefault(part.tensor.type_name, Tally()).add(
                np.ascontiguousarray(wanted, np.float32), dequantise(block, view)
            )
    pack.close()
    return tallies


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("pack", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tallies = compare(options.model, options.pack)
    if options.json:
        print(
            json.dumps({name: vars(tally) | {"error_db": tally.error_db} for name, tally in tallies.items()})
        )
    else:
        for name, tally in tallies.items():
            error = "" if tally.error_db is None else f", {tally.error_db:.1f} dB above the error"
            print(f"{name:5} {tally.weights:>13,} weights, {tally.different:,} differ{error}")
    sys.exit(any(tally.different for name, tally in tallies.items() if name not in FLOAT_TYPES))


if __name__ == "__main__":
    main()
