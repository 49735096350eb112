"""Random raw GGUF blocks of every type that ebbtide reads, with weights of a wished standard deviation."""

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
GROUP_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4")
SUPER_TYPES = ("Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")
FLOAT_TYPES = ("F32", "F16", "BF16")
_HALVES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "IQ4_NL": (0,),
    "MXFP4": (),
}
_HALVES |= {"Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_XS": (0,)}
"""Where the f16 scales of a block lie."""


def random_matrix(rng: np.random.Generator, type_name: str, rows: int, cols: int, std: float) -> U8:
    """Raw bytes u8[rows, row bytes]: normal weights, in K-quants uniform ones; noise in any other type."""
    if type_name == "Q3_K":
        return _q3_k(rng, rows, cols, std)
    if type_name == "IQ4_XS":
        return _iq4_xs(rng, rows, cols, std)
    if type_name == "Q6_K":
        return _q6_k(rng, rows, cols, std)
    if type_name in SUPER_TYPES:
        return _q4_or_q5_k(rng, type_name, rows, cols, std)
    if type_name not in (*GROUP_TYPES, *FLOAT_TYPES):
        block_cols, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]
        return rng.integers(0, 256, (rows, cols // block_cols * block_bytes), dtype=np.uint8)
    weights = (rng.standard_normal((rows, cols)) * std).astype(np.float32)
    if type_name == "IQ4_NL":  # which the gguf package reads and does not write
        return _iq4_nl(weights)
    packed = quants.quantize(weights, GGMLQuantizationType[type_name])
    return np.ascontiguousarray(packed).view(np.uint8).reshape(rows, -1)


def _half_bytes(values: NDArray[np.float64]) -> U8:
    return values.astype(np.float16).reshape(-1, 1).view(np.uint8)


def _steps(rng: np.random.Generator, blocks: int, std: float, code_std: float) -> NDArray[np.float64]:
    """Steps of super-blocks, of either sign: about `std` with sub-scales near 48 and codes of `code_std`."""
    steps: NDArray[np.float64] = rng.uniform(0.7, 1.3, blocks) * rng.choice([-1.0, 1.0], blocks)
    return steps * (std / (48 * code_std))


def _q4_or_q5_k(rng: np.random.Generator, type_name: str, rows: int, cols: int, std: float) -> U8:
    """Equal sub-scales and minimums, dmin = step * middle of the codes: weights symmetric around zero."""
    blocks, levels = rows * cols // 256, 16 if type_name == "Q4_K" else 32
    d = _steps(rng, blocks, std, levels / np.sqrt(12))
    sub_scales = rng.integers(32, 64, (blocks, 8), dtype=np.uint8)
    first, last = sub_scales[:, :4], sub_scales[:, 4:]
    mixed = first | ((last >> 4) << 6)
    packed = [mixed, mixed, (last & 15) | ((last & 15) << 4)]
    codes = rng.integers(0, 256, (blocks, 128 if levels == 16 else 160), dtype=np.uint8)
    dmin = d * (levels - 1) / 2
    return np.hstack([_half_bytes(d), _half_bytes(dmin), *packed, codes]).reshape(rows, -1)


def _q3_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> U8:
    """Sub-scales as llama.cpp's own quantiser packs them, one after the other."""
    blocks = rows * cols // 256
    sub_scales = rng.integers(16, 32, (blocks, 16)) * rng.choice([-1, 1], (blocks, 16))
    packed = np.zeros((blocks, 12), np.uint8)
    for i, value in enumerate((sub_scales + 32).astype(np.uint8).T):
        packed[:, i % 8] |= (value & 15) << (0 if i < 8 else 4)
        packed[:, 8 + i % 4] |= (value >> 4) << (2 * (i // 4))
    codes = rng.integers(0, 256, (blocks, 96), dtype=np.uint8)
    steps = _half_bytes(2 * _steps(rng, blocks, std, 8 / np.sqrt(12)))  # sub-scales are half of 48
    return np.hstack([codes, packed, steps]).reshape(rows, -1)


def _q6_k(rng: np.random.Generator, rows: int, cols: int, std: float) -> U8:
    blocks = rows * cols // 256
    sub_scales = (rng.integers(32, 64, (blocks, 16)) * rng.choice([-1, 1], (blocks, 16))).astype(np.int8)
    codes = rng.integers(0, 256, (blocks, 192), dtype=np.uint8)
    steps = _half_bytes(_steps(rng, blocks, std, 64 / np.sqrt(12)))
    return np.hstack([codes, sub_scales.view(np.uint8), steps]).reshape(rows, -1)


def _iq4_xs(rng: np.random.Generator, rows: int, cols: int, std: float) -> U8:
    """The top bits of a block's sub-scales lie in 16 bits, the first sub-scale's in the lowest two."""
    blocks = rows * cols // 256
    sub_scales = (rng.integers(16, 32, (blocks, 8)) * rng.choice([-1, 1], (blocks, 8)) + 32).astype(np.uint8)
    low, top = sub_scales & 15, (sub_scales >> 4).astype(np.uint16)
    tops = (top << (2 * np.arange(8, dtype=np.uint16))).sum(axis=1, dtype=np.uint16)[:, None].view(np.uint8)
    codes = rng.integers(0, 256, (blocks, 128), dtype=np.uint8)
    code_std = float(np.std(quants.IQ4_NL.kvalues))
    steps = _half_bytes(2 * _steps(rng, blocks, std, code_std))  # sub-scales are half of 48
    return np.hstack([steps, tops, low[:, 0::2] | low[:, 1::2] << 4, codes]).reshape(rows, -1)


def _iq4_nl(weights: NDArray[np.float32]) -> U8:
    """The greatest weight of a group becomes the table's first value; all others the nearest one."""
    groups = weights.reshape(-1, 32)
    table = np.array(quants.IQ4_NL.kvalues, np.float32)
    at = np.abs(groups).argmax(axis=1)[:, None]
    d = (np.take_along_axis(groups, at, 1) / table[0]).astype(np.float16)
    scaled = groups / np.where(d == 0, 1, d).astype(np.float32)
    codes = np.abs(scaled[:, :, None] - table).argmin(axis=2).astype(np.uint8)
    packed = codes[:, :16] | codes[:, 16:] << 4
    return np.hstack([d.view(np.uint8), packed]).reshape(len(weights), -1)


def wild_matrix(rng: np.random.Generator, type_name: str, rows: int, cols: int) -> U8:
    """Raw bytes u8[rows, row bytes], every bit random; f16 scales of either sign, finite, some zero."""
    block_cols, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[type_name]]
    raw = rng.integers(0, 256, (rows * cols // block_cols, block_bytes), dtype=np.uint8)
    if type_name == "MXFP4":
        raw[:, 0] = rng.integers(0, 250, len(raw), dtype=np.uint8)  # above, weights are infinite
    for at in _HALVES[type_name]:
        halves = rng.integers(0, 0x7C00, len(raw), dtype=np.uint16)
        halves[rng.random(len(raw)) < 0.05] = 0
        halves |= rng.integers(0, 2, len(raw), dtype=np.uint16) << np.uint16(15)
        raw[:, at : at + 2] = halves.reshape(-1, 1).view(np.uint8)
    return raw.reshape(rows, -1)
