"""Nested widths against direct quantisation at that width: what nesting itself costs, on normal weights."""

from functools import cache

import numpy as np
import pytest

from ebbtide.engine.weights.codes import F32, Codes, step_and_minimum, to_float
from ebbtide.engine.weights.convert import put_into
from ebbtide.engine.weights.planes import write_rows
from ebbtide.kernels.code_mass import F64, CodeMass
from ebbtide.kernels.cpu.damage_ops import DamageOps
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import contiguous_table
from tests.helpers.min_max import min_max, narrower

AFFINE = [name for name, form in FORMATS.items() if not form.table]
TRUNCATED = [(name, width) for name in AFFINE for width in range(3, FORMATS[name].planes)]
MOST_DB = 0.3
Q6_K_DB = 0.35
"""Groups of 16 whose largest weight is always code 0, which the middle of its bits misses by most."""


@cache
def weights() -> F32:
    return (np.random.default_rng(0).standard_normal((256, 1024)) * 0.02).astype(np.float32)


@cache
def whole(name: str) -> Codes:
    return min_max(FORMATS[name], weights())


@cache
def mass_of(name: str) -> CodeMass:
    codes = whole(name)
    rows, cols = codes.codes.shape
    layout = block_layout([MatrixShape(rows, cols, codes.format)], page_bytes=0, floor_planes=1)
    block = np.zeros(layout.span_bytes, np.uint8)
    write_rows(put_into(block), layout.views[0], 0, codes)
    ops = DamageOps("portable", 1)
    (mass,) = ops.code_mass(contiguous_table(layout, block), 0, None)
    ops.close()
    return mass


def decibel(found: F32 | F64) -> float:
    exact = weights().astype(np.float64)
    return 10 * float(np.log10(np.square(exact).sum() / np.square(exact - found).sum()))


def with_entries(codes: Codes, entries: F64) -> F64:
    """The weights when the first bits of a code stand for `entries`."""
    top = codes.codes >> (codes.format.planes - (len(entries) - 1).bit_length())
    step, minimum = (
        0.0 if part is None else np.repeat(part.astype(np.float64), codes.format.scale_cols, axis=1)
        for part in step_and_minimum(codes.format, codes.scales)
    )
    return np.asarray(step * entries[top] + minimum)


def direct_db(name: str, width: int) -> float:
    codes = min_max(narrower(FORMATS[name], width), weights())
    return decibel(to_float(codes.format, codes.codes, codes.scales))


@pytest.mark.parametrize(("name", "width"), TRUNCATED)
def test_the_middle_of_missing_bits_is_nearly_as_good_as_direct_codes(name: str, width: int) -> None:
    codes = whole(name)
    found = decibel(to_float(codes.format, codes.codes, codes.scales, width=width))
    assert found >= direct_db(name, width) - (Q6_K_DB if name == "Q6_K" else MOST_DB)


@pytest.mark.parametrize(("name", "width"), TRUNCATED)
def test_means_are_within_the_bound_for_every_type(name: str, width: int) -> None:
    entries = mass_of(name).means(width)
    assert decibel(with_entries(whole(name), entries)) >= direct_db(name, width) - MOST_DB


@pytest.mark.parametrize("name", AFFINE)
def test_means_are_never_worse_than_middles(name: str) -> None:
    """Exactly so against all planes; as near as rounding lets against what those were made from."""
    mass, codes = mass_of(name), whole(name)
    damage = mass.damage()
    for width in range(1, codes.format.planes + 1):
        means = mass.means(width)
        assert mass.error(means) <= damage[width]
        middles = decibel(to_float(codes.format, codes.codes, codes.scales, width=width))
        assert decibel(with_entries(codes, means)) >= middles - 0.01


@pytest.mark.parametrize("name", AFFINE)
def test_damage_is_the_error_of_the_truncated_weights(name: str) -> None:
    codes, damage = whole(name), mass_of(name).damage()
    exact = to_float(codes.format, codes.codes, codes.scales).astype(np.float64)
    for width in range(1, codes.format.planes):
        truncated = to_float(codes.format, codes.codes, codes.scales, width=width)
        np.testing.assert_allclose(damage[width], np.square(exact - truncated).sum(), rtol=1e-4)
    np.testing.assert_allclose(damage[0], np.square(exact).sum(), rtol=1e-5)
