"""float32 rows to GGUF's Q8_0, Q4_1 and Q5_1 blocks of 32, whole matrices at a time.

Every operation is one correctly rounded IEEE operation per element, so that the bytes are the same
on every machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gguf import GGMLQuantizationType
from numpy.typing import NDArray

BLOCK = 32
Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def q8_0(weights: Floats) -> Bytes:
    """34 bytes a block: float16 d, 32 int8 q; value = d q with d = max|w| / 127."""
    blocks = weights.reshape(-1, BLOCK)
    scale = np.maximum(blocks.max(axis=1), -blocks.min(axis=1)) / np.float32(127)
    codes = np.rint(blocks * _inverse(scale)[:, None])
    out = np.empty((len(blocks), 34), np.uint8)
    out[:, :2] = _half_bytes(scale)
    out[:, 2:] = codes.astype(np.int8).view(np.uint8)
    return out.reshape(len(weights), -1)


def q4_1(weights: Floats) -> Bytes:
    """20 bytes a block: float16 d and m, 32 codes of 4 bits; value = d q + m."""
    head, codes = _affine(weights, top=15)
    out = np.empty((len(codes), 20), np.uint8)
    out[:, :4] = head
    out[:, 4:] = _nibbles(codes)
    return out.reshape(len(weights), -1)


def q5_1(weights: Floats) -> Bytes:
    """24 bytes a block: float16 d and m, 32 fifth bits (little-endian), 32 low nibbles."""
    head, codes = _affine(weights, top=31)
    out = np.empty((len(codes), 24), np.uint8)
    out[:, :4] = head
    out[:, 4:8] = np.packbits(codes >> np.uint8(4), axis=1, bitorder="little")
    out[:, 8:] = _nibbles(codes & np.uint8(15))
    return out.reshape(len(weights), -1)


QUANTISERS: dict[str, tuple[GGMLQuantizationType, Callable[[Floats], Bytes]]] = {
    "Q8_0": (GGMLQuantizationType.Q8_0, q8_0),
    "Q4_1": (GGMLQuantizationType.Q4_1, q4_1),
    "Q5_1": (GGMLQuantizationType.Q5_1, q5_1),
}


def _affine(weights: Floats, top: int) -> tuple[Bytes, Bytes]:
    """Head bytes [blocks, 4] and codes [blocks, 32] in 0..top."""
    blocks = weights.reshape(-1, BLOCK)
    low = blocks.min(axis=1)
    scale = (blocks.max(axis=1) - low) / np.float32(top)
    codes = np.rint((blocks - low[:, None]) * _inverse(scale)[:, None])
    head = np.concatenate([_half_bytes(scale), _half_bytes(low)], axis=1)
    return head, np.clip(codes, 0, top).astype(np.uint8)


def _inverse(scale: Floats) -> Floats:
    return np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)


def _half_bytes(values: Floats) -> Bytes:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)


def _nibbles(codes: Bytes) -> Bytes:
    """Codes 0..15 of a block in the low halves of its 16 bytes, codes 16..31 in the high halves."""
    return codes[:, :16] | (codes[:, 16:] << np.uint8(4))
