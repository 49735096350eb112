"""Conversion in pieces: windows of reads, pages of writes, the sum of what was lost."""

import math
from itertools import pairwise

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from ebbtide.engine.gguf import TensorInfo
from ebbtide.engine.model.mapping import Part
from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.convert import Losses, convert_block, put_into, put_into_pages
from ebbtide.engine.weights.planes import dequantise
from ebbtide.kernels.layout import block_layout
from tests.helpers.random_blocks import random_matrix


@pytest.mark.parametrize(
    ("type_name", "rows", "cols"),
    [
        ("Q8_0", 1001, 1536),  # more than one read of 1 MiB, odd rows
        ("Q4_1", 40, 8192),  # pieces of one strip
        ("Q6_K", 33, 16384),  # a strip is more than a piece
    ],
)
def test_large_matrices_are_converted_whole(type_name: str, rows: int, cols: int) -> None:
    """Two matrices that are parts of one tensor; the second begins in the middle of a strip of the tensor."""
    raw = random_matrix(np.random.default_rng(1), type_name, 2 * rows, cols, 0.1)
    file, row_bytes, start = raw.reshape(-1), raw.shape[1], 640
    asked: list[int] = []

    def read(offset: int, nbytes: int) -> U8:
        asked.append(nbytes)
        return file[offset - start : offset - start + nbytes].copy()

    tensor = TensorInfo("t", (2 * rows, cols), type_name, start, file.size)
    parts = (Part(tensor, 0, rows, cols), Part(tensor, rows, rows, cols))
    layout = block_layout([part.shape for part in parts], page_bytes=0, floor_planes=8)
    block = np.zeros(layout.span_bytes, np.uint8)
    assert convert_block(read, parts, layout, put_into(block), Losses()) == sum(asked) == file.size
    assert max(asked) <= max(1 << 20, 16 * row_bytes)
    expected = quants.dequantize(raw, GGMLQuantizationType[type_name])
    found = np.concatenate([dequantise(block, view) for view in layout.views])
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_pages_get_what_lies_in_their_range() -> None:
    rng = np.random.default_rng(2)
    space = rng.integers(1, 256, 1000, dtype=np.uint8)
    pages = [np.zeros(64, np.uint8) for _ in range(5)]
    put = put_into_pages(320, pages)
    cuts = [0, *sorted(rng.choice(1000, 30, replace=False)), 1000]
    for start, end in pairwise(cuts):
        put(int(start), space[start:end])
    np.testing.assert_array_equal(np.concatenate(pages), space[320 : 320 + 5 * 64])


def test_losses_add_up_per_type() -> None:
    one, other = Losses(), Losses()
    one.add("F16", 100.0, 1.0)
    one.add("Q8_0", 0.0, 0.0)
    other.add("F16", 100.0, 1.0)
    other.add("BF16", 1.0, 0.0)
    one.merge(other)
    assert one.sums == {"F16": [200.0, 2.0], "BF16": [1.0, 0.0]}
    bf16, f16 = one.notices()
    assert bf16.startswith("BF16") and f"{math.inf:.1f} dB" in bf16
    assert f16.startswith("F16") and "20.0 dB" in f16
