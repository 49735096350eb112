"""FP8 codes: torch's rounding, scales that use the range, and how far a vector comes back changed."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ebbtide.kernels.reference.e4m3 import code_of, code_values, decode, encode, scale_byte, scale_of
from ebbtide.kernels.sealed import NOT_FINITE

NAN_CODES = (0x7F, 0xFF)


def test_every_code_has_torchs_value() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    wanted = codes.view(torch.float8_e4m3fn).float().numpy()
    keep = [code for code in range(256) if code not in NAN_CODES]
    assert (code_values()[keep] == wanted[keep]).all()


@given(arrays(np.float32, 64, elements=st.floats(-448, 448, width=32)))
def test_rounds_like_torch(x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
    wanted = torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert (code_of(x) == wanted).all()


def test_ties_and_neighbours_of_every_pair_of_codes() -> None:
    values = code_values()[:0x7F]
    ties = (values[:-1] + values[1:]) / 2
    x = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, np.float32(np.inf))]).astype(
        np.float32
    )
    wanted = torch.from_numpy(x).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    assert (code_of(x) == wanted).all() and (code_of(-x) == wanted | 0x80).all()


@pytest.mark.parametrize("peak", [448.0, 449.0, 1.0, 1.75, 1.76, 1e-3, 3.3e38, 1e-38, 1e-45])
def test_the_scale_is_the_smallest_that_fits(peak: float) -> None:
    x = np.array([0.0, -peak, peak / 2], np.float32)
    byte = scale_byte(x)
    scale = float(scale_of(byte))
    largest = float(abs(x).max())
    assert largest <= 448 * scale
    assert byte == 1 or largest > 448 * scale / 2


def test_a_vector_without_numbers_is_marked() -> None:
    x = np.array([[1, np.nan], [np.inf, 1], [0, 0], [1, 2]], np.float32)
    codes, byte = encode(x)
    assert (byte == NOT_FINITE).tolist() == [True, True, False, False]
    back = decode(codes, byte)
    assert np.isnan(back[:2]).all() and (back[2:] == x[2:]).all()


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e5, 1e37])
def test_a_vector_comes_back(size: float) -> None:
    """A sixteenth of each value at most (half of a mantissa's step), or half of the smallest code."""
    x = (np.random.default_rng(1).standard_normal((200, 128)) * size).astype(np.float32)
    codes, byte = encode(x)
    scale = scale_of(byte)[:, None].astype(np.float64)
    bound = np.maximum(np.abs(x) / 16, scale * 2.0**-10)
    assert (np.abs(decode(codes, byte) - x.astype(np.float64)) <= bound).all()
    noise = ((decode(codes, byte).astype(np.float64) - x) ** 2).sum() / (x.astype(np.float64) ** 2).sum()
    assert 10 * np.log10(1 / noise) > 30
