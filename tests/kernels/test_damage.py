"""What widths cost: by the definition, at every width, and the same bits on every instruction set."""

from collections.abc import Sequence

import numpy as np
import pytest

from ebbtide.kernels.code_mass import CodeMass, code_values
from ebbtide.kernels.cpu.damage_ops import DamageOps
from ebbtide.kernels.layout import MatrixFormat, MatrixShape, ScaleKind, block_layout
from ebbtide.kernels.ops import F32, U8, BlockTable, KernelError, contiguous_table
from ebbtide.kernels.reference import damage as reference
from tests.helpers.attention_kernels import isas
from tests.helpers.formats import KERNEL_FORMATS
from tests.helpers.plane_blocks import GUARD, POISON, dense_table, random_block, scattered_table

ISAS = isas()
FORMS = list(KERNEL_FORMATS.values())


def wide(form: MatrixFormat, wished: int) -> int:
    return -(-wished // form.col_multiple) * form.col_multiple


def random_moments(rng: np.random.Generator, cols: int) -> F32:
    """Very different ones, some of them 0."""
    moments = np.exp(rng.normal(0, 4, cols)).astype(np.float32)
    moments[rng.random(cols) < 0.1] = 0
    return moments


class GuardedOps(DamageOps):
    """With just the workspace that it asks for, full of NaN; `check` fails if it wrote around it."""

    def set_workspace(self, buffer: U8) -> None:
        self.memory = np.full(buffer.size + 2 * GUARD, POISON, np.uint8)
        super().set_workspace(self.memory[GUARD:-GUARD])

    def check(self) -> None:
        around = np.concatenate([self.memory[:GUARD], self.memory[-GUARD:]])
        assert (around == POISON).all(), "wrote around the workspace"


def masses(table: BlockTable, moments: F32 | None, isa: str = "portable", threads: int = 1) -> list[CodeMass]:
    ops = GuardedOps(isa, threads)
    try:
        found = ops.code_mass(table, 0, moments)
        ops.check()
    finally:
        ops.close()
    return found


def bits(results: Sequence[CodeMass]) -> bytes:
    return b"".join(one.mass.tobytes() + np.float64(one.energy).tobytes() for one in results)


def assert_as_defined(table: BlockTable, moments: F32 | None) -> None:
    """Sums in double: as the definition up to a few units. With minima, what all planes give is float."""
    for view, found in enumerate(masses(table, moments)):
        wanted = reference.view_damage(table, 0, view, moments)
        damage = found.damage()
        np.testing.assert_allclose(damage[1:], wanted[1:], rtol=1e-12, atol=0)
        tolerance = 1e-12 if found.format.kind not in (ScaleKind.HALF_MIN, ScaleKind.K6) else 1e-5
        np.testing.assert_allclose(damage[0], wanted[0], rtol=tolerance, atol=0)
        assert damage[-1] == 0


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize(("rows", "wished"), [(1, 32), (16, 96), (37, 544), (150, 32)])
def test_every_width_as_defined(form: MatrixFormat, weighed: bool, rows: int, wished: int) -> None:
    rng = np.random.default_rng(rows)
    cols = wide(form, wished)
    layout = block_layout([MatrixShape(rows, cols, form)], page_bytes=0, floor_planes=1)
    table = dense_table(layout, rng, form.planes)
    assert_as_defined(table, random_moments(rng, cols) if weighed else None)


@pytest.mark.parametrize("names", [("Q4_K", "Q6_K"), ("Q6_K", "Q3_K"), ("Q5_0", "Q8_0"), ("MXFP4", "G8")])
def test_views_with_different_planes(names: tuple[str, str]) -> None:
    """A view is whole from its own last plane on, whatever the block's width."""
    rng = np.random.default_rng(3)
    shapes = [
        MatrixShape(rows, 512, KERNEL_FORMATS[name]) for rows, name in zip((40, 33), names, strict=True)
    ]
    layout = block_layout(shapes, page_bytes=4096, floor_planes=2)
    table = scattered_table(layout, rng, [layout.planes])
    moments = random_moments(rng, 512)
    assert_as_defined(table, moments)
    assert [len(one.mass) for one in masses(table, moments)] == [
        1 << v.shape.format.planes for v in layout.views
    ]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_same_bits_everywhere(form: MatrixFormat) -> None:
    """Pages in any order, in one piece or scattered; enough strips for several threads."""
    rng = np.random.default_rng(5)
    cols = wide(form, 576)
    shapes = [MatrixShape(rows, cols, form) for rows in (200, 90)]
    layout = block_layout(shapes, page_bytes=4096, floor_planes=1)
    moments = random_moments(rng, cols)
    table = scattered_table(layout, rng, [form.planes])
    expected = bits(masses(table, moments))
    for isa in ISAS:
        for threads in (1, 2, 3):
            assert bits(masses(table, moments, isa, threads)) == expected, (isa, threads)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x55])
def test_codes_that_are_all_alike(form: MatrixFormat, byte: int) -> None:
    """One bucket takes all: additions to it come as fast as they can."""
    rng = np.random.default_rng(byte)
    cols = wide(form, 96)
    layout = block_layout([MatrixShape(48, cols, form)], page_bytes=0, floor_planes=1)
    block = random_block(layout, rng)
    fill_planes(block, layout.views[0].plane_offsets, layout.views[0].shape.plane_bytes, byte)
    table = contiguous_table(layout, block)
    moments = random_moments(rng, cols)
    assert_as_defined(table, moments)
    for isa in ISAS:
        assert bits(masses(table, moments, isa, 2)) == bits(masses(table, moments)), isa
    if byte != 0x55:
        (found,) = masses(table, moments)
        assert np.count_nonzero(found.mass) == 1


def fill_planes(block: U8, offsets: Sequence[int], nbytes: int, byte: int) -> None:
    for offset in offsets:
        block[offset : offset + nbytes] = byte


def test_rows_of_padding_count_for_nothing() -> None:
    """Their codes and scales are noise, even infinite."""
    for name in ("Q8_0", "Q4_1", "Q4_K", "Q6_K"):
        form = KERNEL_FORMATS[name]
        layout = block_layout([MatrixShape(17, 256, form)], page_bytes=0, floor_planes=1)
        table = dense_table(layout, np.random.default_rng(1), form.planes)
        block = table.native["buffer"]
        assert isinstance(block, np.ndarray)
        before = bits(masses(table, None))
        meta = block[layout.views[0].meta_offset :][: layout.views[0].shape.meta_bytes].reshape(2, -1)
        meta[1].view(np.uint16)[1:16] = 0x7C00  # d of rows 17 .. 31
        assert bits(masses(table, None)) == before, name


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_reference_finds_the_same(form: MatrixFormat) -> None:
    rng = np.random.default_rng(8)
    cols = wide(form, 64)
    layout = block_layout([MatrixShape(20, cols, form)], page_bytes=0, floor_planes=1)
    table = dense_table(layout, rng, form.planes)
    moments = random_moments(rng, cols)
    (found,), (wanted,) = masses(table, moments), reference.code_mass(table, 0, moments)
    np.testing.assert_allclose(found.mass, wanted.mass, rtol=1e-12)
    np.testing.assert_allclose(found.energy, wanted.energy, rtol=1e-5)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_means_are_the_best_entries(form: MatrixFormat) -> None:
    rng = np.random.default_rng(9)
    cols = wide(form, 96)
    layout = block_layout([MatrixShape(33, cols, form)], page_bytes=0, floor_planes=1)
    (mass,) = masses(dense_table(layout, rng, form.planes), random_moments(rng, cols))
    for width in range(1, form.planes + 1):
        means = mass.means(width)
        least = mass.error(means)
        assert least <= mass.error(code_values(form, width)) * (1 + 1e-12)
        for _ in range(8):
            assert least <= mass.error(means + rng.normal(0, 0.1, len(means)))
        # By the definition: weights with these entries, compared one by one.
        np.testing.assert_allclose(least, slow_error(mass, means.tolist()), rtol=1e-9, atol=1e-300)


def slow_error(mass: CodeMass, entries: list[float]) -> float:
    dropped = mass.format.planes - (len(entries) - 1).bit_length()
    values = code_values(mass.format).tolist()
    return float(sum(m * (values[c] - entries[c >> dropped]) ** 2 for c, m in enumerate(mass.mass.tolist())))


def test_a_code_that_no_weight_has_keeps_its_entry() -> None:
    form = KERNEL_FORMATS["Q8_0"]
    mass = CodeMass(form, np.zeros(256), 0.0)
    assert np.array_equal(mass.means(3), code_values(form, 3))
    assert not mass.damage().any()


def test_masses_add_up() -> None:
    form = KERNEL_FORMATS["Q5_1"]
    layout = block_layout([MatrixShape(16, 64, form)] * 2, page_bytes=0, floor_planes=1)
    first, second = masses(dense_table(layout, np.random.default_rng(2), 5), None)
    both = first + second
    np.testing.assert_allclose(both.damage(), first.damage() + second.damage(), rtol=1e-12)
    with pytest.raises(ValueError, match="Q8_0"):
        first + CodeMass(KERNEL_FORMATS["Q8_0"], np.zeros(256), 0.0)


def test_infinite_weights_lose_infinitely_and_give_no_nan() -> None:
    form = KERNEL_FORMATS["Q8_0"]
    layout = block_layout([MatrixShape(16, 32, form)], page_bytes=0, floor_planes=1)
    table = dense_table(layout, np.random.default_rng(4), 8)
    block = table.native["buffer"]
    assert isinstance(block, np.ndarray)
    block[:32].view(np.uint16)[3] = 0x7C00
    (found,) = masses(table, None)
    assert np.isinf(found.damage()[:8]).all() and found.damage()[8] == 0


def test_refuses_what_it_cannot_do() -> None:
    form = KERNEL_FORMATS["Q4_0"]
    layout = block_layout([MatrixShape(16, 64, form)], page_bytes=4096, floor_planes=1)
    table = scattered_table(layout, np.random.default_rng(1), [3, 4])
    ops = DamageOps("portable", 2)
    for measure in (ops.code_mass, reference.code_mass):
        with pytest.raises(KernelError, match="not in fast memory"):
            measure(table, 0, None)
        with pytest.raises(KernelError, match="out of range"):
            measure(table, 2, None)
        for bad in (np.ones(63, np.float32), np.ones(64), np.ones(128, np.float32)[::2]):
            with pytest.raises(KernelError, match="moments"):
                measure(table, 1, bad)  # type: ignore[arg-type]
        for value in (np.nan, np.inf, -1.0):
            with pytest.raises(KernelError, match="finite and not negative"):
                measure(table, 1, np.full(64, value, np.float32))
    table.page_table[1, -1] = -1
    with pytest.raises(KernelError, match="not in fast memory"):
        ops.code_mass(table, 1, None)
    ops.close()
