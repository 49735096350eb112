"""G8 codes of float weights: the error bound that follows from half a step, and what cannot be coded."""

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights.codes import F32, to_float
from ebbtide.engine.weights.decode import decode
from ebbtide.engine.weights.float_types import encode_g8, sqnr_db
from tests.helpers.random_blocks import FLOAT_TYPES


def coded(weights: F32) -> F32:
    codes = encode_g8(weights)
    return to_float(codes.format, codes.codes, codes.scales)


@pytest.mark.parametrize("std", [1e-4, 0.02, 1.0, 300.0])  # 1e-4: the steps are f16 subnormals
def test_no_weight_is_off_by_more_than_half_a_step(std: float) -> None:
    weights = (np.random.default_rng(1).standard_normal((7, 96)) * std).astype(np.float32)
    codes = encode_g8(weights)
    step = codes.scales.d.astype(np.float32).repeat(32, axis=1)
    assert (np.abs(coded(weights) - weights) <= step / 2 * (1 + 1e-6)).all()
    assert codes.codes.min() >= 1 and codes.codes.max() == 255


@pytest.mark.parametrize("type_name", FLOAT_TYPES)
def test_the_reported_error_is_the_error(type_name: str) -> None:
    weights = np.random.default_rng(2).standard_normal((64, 576)).astype(np.float32)
    raw = quants.quantize(weights, GGMLQuantizationType[type_name]).view(np.uint8).reshape(-1)
    stored = quants.dequantize(raw.reshape(64, -1), GGMLQuantizationType[type_name]).reshape(64, 576)
    codes = decode(raw, type_name, 64, 576)
    error = to_float(codes.format, codes.codes, codes.scales).astype(np.float64) - stored
    measured = sqnr_db(np.square(stored, dtype=np.float64).sum(), np.square(error).sum())
    assert sqnr_db(codes.signal, codes.noise) == pytest.approx(measured, abs=1e-3)


def test_normal_weights_keep_the_error_of_uniform_rounding() -> None:
    """Rounding to steps of amax / 127 leaves step^2 / 12; f16 steps and chance move it by under 0.2 dB."""
    weights = np.random.default_rng(3).standard_normal((512, 576)).astype(np.float32)
    step = np.abs(weights.reshape(-1, 32)).max(axis=1).astype(np.float64) / 127
    expected = sqnr_db(np.square(weights, dtype=np.float64).sum(), 32 * np.square(step).sum() / 12)
    codes = encode_g8(weights)
    assert expected > 44
    assert sqnr_db(codes.signal, codes.noise) == pytest.approx(expected, abs=0.2)


def test_a_group_of_zeros_stays_zero_and_costs_nothing() -> None:
    codes = encode_g8(np.zeros((1, 64), np.float32))
    assert not to_float(codes.format, codes.codes, codes.scales).any()
    assert sqnr_db(codes.signal, codes.noise) == np.inf


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_weights_without_a_step_are_refused(bad: float) -> None:
    weights = np.ones((1, 32), np.float32)
    weights[0, 7] = bad
    with pytest.raises(ModelError, match="not finite"):
        encode_g8(weights)
