"""Experts, gated activation and the weighted sum: against the reference, and the same bits in any company."""

from typing import NamedTuple

import numpy as np
import pytest

from ebbtide.kernels.layout import MatrixShape, block_layout
from ebbtide.kernels.ops import F32, I32, U8, Activation, BlockTable, KernelError, WorkspaceShape
from ebbtide.kernels.reference import moe as reference
from tests.helpers.attention_kernels import isas
from tests.helpers.formats import KERNEL_FORMATS
from tests.helpers.plane_blocks import UNIT, GuardedOutput, linear_ops, scattered_table

ISAS = isas()
EXPERTS, TOP_K, COLS, HIDDEN, OUT = 6, 2, 256, 512, 50
FORMS = [
    ("Q8_0", "Q8_0", "Q8_0"),
    ("Q4_K", "Q6_K", "Q6_K"),
    ("Q4_1", "Q5_0", "G8"),
    ("Q3_K", "Q3_K", "Q5_K"),
    ("IQ4_XS", "IQ4_XS", "IQ4_XS"),
    ("IQ4_NL", "MXFP4", "TABLE_8"),
]


class Layer(NamedTuple):
    gate_up: BlockTable
    down: BlockTable


def layer(rng: np.random.Generator, names: tuple[str, str, str], widths: list[int]) -> Layer:
    gate, up, down = (KERNEL_FORMATS[name] for name in names)
    gate_up = block_layout(
        [MatrixShape(HIDDEN, COLS, gate), MatrixShape(HIDDEN, COLS, up)], page_bytes=3 * 4096, floor_planes=2
    )
    below = block_layout([MatrixShape(OUT, HIDDEN, down)], page_bytes=3 * 4096, floor_planes=2)
    return Layer(scattered_table(gate_up, rng, widths), scattered_table(below, rng, widths))


def routes(rng: np.random.Generator, rows: int) -> I32:
    """Different experts for each row; expert 5 gets nobody."""
    return np.stack([rng.permutation(EXPERTS - 1)[:TOP_K] for _ in range(rows)]).astype(np.int32)


def run(
    isa: str, threads: int, x: F32, idx: I32, chosen: U8, tables: Layer, activation: Activation = "silu"
) -> F32:
    out = GuardedOutput(*idx.shape, OUT)
    out.array[...] = 7
    shape = WorkspaceShape(x.shape[0], COLS, 2 * HIDDEN, EXPERTS, idx.shape[1], HIDDEN, 1, 1, 16)
    with linear_ops(isa, threads, shape) as ops:
        ops.moe(x, idx, chosen, *tables, out.array, activation)
    out.check()
    return out.array


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("names", FORMS)
@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_agrees_with_the_reference(isa: str, names: tuple[str, str, str], activation: Activation) -> None:
    rng = np.random.default_rng(1)
    tables = layer(rng, names, [8, 4, 2, 5, 3, 0])
    chosen = np.ones(EXPERTS, np.uint8)
    chosen[3] = 0
    for rows in (1, 2, 7, 33):
        x, idx = rng.standard_normal((rows, COLS)).astype(np.float32), routes(rng, rows)
        expected = np.full((rows, TOP_K, OUT), 7, np.float32)
        reference.moe(x, idx, chosen, *tables, expected, activation)
        out = run(isa, 2, x, idx, chosen, tables, activation)
        assert (out[idx == 3] == 7).all()
        # The hidden row is rounded to 1/1919 of its group's peak, like x before it: errors of a few steps.
        scale = np.abs(expected[idx != 3]).max()
        assert np.abs(out - expected).max() <= 8 / 1919 * scale


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("names", [FORMS[1], FORMS[3]])
def test_a_pair_has_the_same_bits_in_any_company(isa: str, names: tuple[str, str, str]) -> None:
    rng = np.random.default_rng(2)
    tables = layer(rng, names, [8, 4, 2, 5, 3, 0])
    x, idx = rng.standard_normal((70, COLS)).astype(np.float32), routes(rng, 70)
    chosen = np.ones(EXPERTS, np.uint8)
    alone = np.concatenate([run(isa, 1, x[i : i + 1], idx[i : i + 1], chosen, tables) for i in range(12)])
    for rows in (2, 5, 12, 70):
        for threads in (1, 2, 3):
            out = run(isa, threads, x[:rows], idx[:rows], chosen, tables)
            assert out[:12].tobytes() == alone[:rows].tobytes(), (rows, threads)


@pytest.mark.parametrize("isa", ISAS)
def test_experts_in_groups_give_the_bits_of_all_at_once(isa: str) -> None:
    rng = np.random.default_rng(3)
    tables = layer(rng, FORMS[0], [8, 8, 2, 5, 3, 1])
    x, idx = rng.standard_normal((9, COLS)).astype(np.float32), routes(rng, 9)
    whole = run(isa, 2, x, idx, np.ones(EXPERTS, np.uint8), tables)
    out = GuardedOutput(9, TOP_K, OUT)
    shape = WorkspaceShape(9, COLS, 2 * HIDDEN, EXPERTS, TOP_K, HIDDEN, 1, 1, 16)
    with linear_ops(isa, 2, shape) as ops:
        for group in ([0, 4], [2], [1, 3, 5]):
            chosen = np.zeros(EXPERTS, np.uint8)
            chosen[group] = 1
            ops.moe(x, idx, chosen, *tables, out.array, "silu")
    out.check()
    assert out.array.tobytes() == whole.tobytes()


@pytest.mark.parametrize("isa", ISAS)
def test_refuses_absent_experts_and_bad_routes(isa: str) -> None:
    rng = np.random.default_rng(4)
    tables = layer(rng, FORMS[0], [8, 8, 2, 5, 3, 0])
    x, chosen = np.ones((1, COLS), np.float32), np.ones(EXPERTS, np.uint8)
    for idx, message in (([0, 5], "not in fast memory"), ([0, 6], "out of range"), ([-1, 0], "out of range")):
        with pytest.raises(KernelError, match=message):
            run(isa, 1, x, np.array([idx], np.int32), chosen, tables)
    with pytest.raises(KernelError, match="out of range"):  # twice the same expert
        run(isa, 1, x, np.array([[1, 1]], np.int32), chosen, tables)
    tables.down.page_table[0, -1] = -1
    with pytest.raises(KernelError, match="not in fast memory"):
        run(isa, 1, x, np.array([[0, 1]], np.int32), chosen, tables)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("activation", ["silu", "gelu"])
def test_glu(isa: str, activation: Activation) -> None:
    rng = np.random.default_rng(5)
    gate_up = (rng.standard_normal((300, 2 * 61)) * 30).astype(np.float32)
    gate_up[0, :4] = (-200, 200, 0, -88)
    out, expected = GuardedOutput(300, 61), np.empty((300, 61), np.float32)
    reference.glu(gate_up, expected, activation)
    with linear_ops(isa, 2, WorkspaceShape(1, 32, 1, 0, 1, 1, 1, 1, 16)) as ops:
        ops.glu(gate_up, out.array, activation)
        one = np.empty((1, 61), np.float32)
        ops.glu(gate_up[9:10], one, activation)
    out.check()
    assert one.tobytes() == out.array[9:10].tobytes()
    # e^-x is good to 2 units and its argument's rounding is magnified by x. Far below 0, where the result is
    # next to nothing, the reference's 1 + tanh has no digits left.
    tolerance = 1e-5 * np.abs(expected) + 1e-15 * np.abs(gate_up[:, :61] * gate_up[:, 61:]) + 1e-30
    assert (np.abs(out.array - expected) <= tolerance).all()


@pytest.mark.parametrize("isa", ISAS)
def test_combine_adds_in_routing_order(isa: str) -> None:
    rng = np.random.default_rng(6)
    pair = rng.standard_normal((90, 3, 77)).astype(np.float32)
    weights = rng.standard_normal((90, 3)).astype(np.float32)
    start = rng.standard_normal((90, 77)).astype(np.float32)
    out, expected = GuardedOutput(90, 77), start.copy()
    out.array[...] = start
    reference.combine(pair, weights, expected)
    with linear_ops(isa, 2, WorkspaceShape(1, 32, 1, 0, 1, 1, 1, 1, 16)) as ops:
        ops.combine(pair, weights, out.array)
        one = start[4:5].copy()
        ops.combine(pair[4:5], weights[4:5], one)
    out.check()
    assert one.tobytes() == out.array[4:5].tobytes()
    magnitude = np.abs(start) + (np.abs(weights)[..., None] * np.abs(pair)).sum(axis=1)
    assert (np.abs(out.array - expected) <= 6 * UNIT * magnitude).all()
