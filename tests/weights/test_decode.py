"""Codes and scales against the dequantisation of the gguf package, bit for bit."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights.codes import to_float
from ebbtide.engine.weights.decode import TYPES, decode
from tests.helpers.random_blocks import GROUP_TYPES, SUPER_TYPES, random_matrix, wild_matrix

SHAPES = [(1, 32), (3, 576), (33, 1536), (16, 256)]  # one group; rows of the starter; odd row counts
QUANTISED = [(name, shape) for name in GROUP_TYPES for shape in SHAPES] + [
    (name, shape) for name in SUPER_TYPES for shape in [(1, 256), (5, 1536), (33, 512)]
]


@pytest.mark.parametrize(("type_name", "shape"), QUANTISED)
@pytest.mark.parametrize("wild", [False, True], ids=["normal weights", "any bits"])
def test_codes_give_the_weights_of_ggml(type_name: str, shape: tuple[int, int], wild: bool) -> None:
    rng = np.random.default_rng(1)
    raw = wild_matrix(rng, type_name, *shape) if wild else random_matrix(rng, type_name, *shape, std=0.05)
    expected = quants.dequantize(raw, GGMLQuantizationType[type_name])
    codes = decode(raw.reshape(-1), type_name, *shape)
    weights = to_float(codes.format, codes.codes, codes.scales)
    np.testing.assert_array_equal(weights.view(np.uint32), expected.view(np.uint32))
    assert codes.codes.max() < 1 << codes.format.planes
    assert (codes.signal, codes.noise) == (0.0, 0.0)


def test_block_sizes_are_those_of_the_gguf_package() -> None:
    from gguf import GGML_QUANT_SIZES

    for name, kind in TYPES.items():
        cols, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        assert (kind.block_cols, kind.block_bytes) == (cols, nbytes), name


def test_a_type_without_planes_is_refused_by_name() -> None:
    with pytest.raises(ModelError, match="IQ2_XS"):
        decode(np.zeros(74, np.uint8), "IQ2_XS", 1, 256)


def test_bytes_that_do_not_fill_the_rows_are_refused() -> None:
    with pytest.raises(ModelError, match="take 68 bytes, not 67"):
        decode(np.zeros(67, np.uint8), "Q8_0", 2, 32)
