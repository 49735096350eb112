"""Any-precision codes: nested, in order, better than affine ones, and the same however they were made."""

from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import pytest
import torch

from ebbtide.engine.errors import ModelError
from ebbtide.engine.weights.any_precision import CodeBook, code_book
from ebbtide.engine.weights.codes import F32, Codes, Scales, to_float
from ebbtide.engine.weights.convert import put_into
from ebbtide.engine.weights.float_types import encode_g8, group_scales
from ebbtide.engine.weights.planes import write_rows
from ebbtide.kernels.layout import MatrixShape, block_layout
from ebbtide.kernels.ops import contiguous_table
from ebbtide.kernels.reference.planes import load_view

PLANES = 6
SHAPES = ("normal", "laplace", "t5")


@cache
def weights(shape: str = "normal", rows: int = 256, cols: int = 1024) -> F32:
    rng = np.random.default_rng(0)
    drawn = {
        "normal": lambda: rng.standard_normal((rows, cols)),
        "laplace": lambda: rng.laplace(size=(rows, cols)),
        "t5": lambda: rng.standard_t(5, (rows, cols)),
    }
    return (drawn[shape]() * 0.02).astype(np.float32)


@cache
def moments(cols: int = 1024) -> F32:
    return np.random.default_rng(1).lognormal(sigma=1.5, size=cols).astype(np.float32)


def made(found: F32, planes: int = PLANES, seed_width: int = 3, e: F32 | None = None) -> CodeBook:
    return code_book(found, group_scales(found), e, planes=planes, seed_width=seed_width)


def decoded(book: CodeBook, found: F32, width: int) -> F32:
    scales = group_scales(found)
    return book.decode(book.encode(found, scales), scales, width)


def decibel(exact: F32, found: F32, e: F32 | None = None) -> float:
    each = np.ones(exact.shape[1]) if e is None else e.astype(np.float64)
    signal, noise = np.square(exact.astype(np.float64)), np.square(exact.astype(np.float64) - found)
    return 10 * float(np.log10((signal * each).sum() / (noise * each).sum()))


def same(one: CodeBook, other: CodeBook) -> bool:
    tables = zip(one.tables, other.tables, strict=True)
    return np.array_equal(one.edges, other.edges) and all(np.array_equal(a, b) for a, b in tables)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_bits_of_a_code_are_the_code_of_fewer_bits(shape: str) -> None:
    found = weights(shape)
    scales, whole = group_scales(found), made(found)
    codes = whole.encode(found, scales)
    assert codes.max() < 2**PLANES
    for width in range(3, PLANES):
        narrow = made(found, width)
        np.testing.assert_array_equal(narrow.encode(found, scales), codes >> (PLANES - width))
        np.testing.assert_array_equal(narrow.tables[-1], whole.tables[width - 1])


@pytest.mark.parametrize("planes", range(1, 9))
def test_entries_never_fall_and_codes_follow_the_weights(planes: int) -> None:
    found = weights("t5")
    book = made(found, planes)
    assert [len(table) for table in book.tables] == [2**width for width in range(1, planes + 1)]
    assert all((np.diff(table.astype(int)) >= 0).all() for table in book.tables)
    ramp = np.linspace(-1, 1, 64, dtype=np.float32)[None]
    codes = book.encode(ramp, np.full((1, 2), 1 / 127, np.float16))
    assert (np.diff(codes[0].astype(int)) >= 0).all()
    assert (codes[0, 0], codes[0, -1]) == (0, 2**planes - 1)


@pytest.mark.parametrize("width", range(3, PLANES + 1))
@pytest.mark.parametrize("shape", SHAPES)
def test_it_beats_the_middle_of_affine_codes(shape: str, width: int) -> None:
    found, codes = weights(shape), encode_g8(weights(shape))
    affine = to_float(codes.format, codes.codes, codes.scales, width=width)
    assert decibel(found, decoded(made(found), found, width)) >= decibel(found, affine) + 0.1


@pytest.mark.parametrize("width", range(3, PLANES + 1))
@pytest.mark.parametrize("shape", SHAPES)
def test_nesting_costs_little_against_the_best_codes_of_that_width(shape: str, width: int) -> None:
    """Cuts in two are not the best cuts in 2^n: 0.6 dB, a tenth of a bit, is lost at most."""
    found = weights(shape)
    nested = decibel(found, decoded(made(found), found, width))
    direct = decibel(found, decoded(made(found, width, seed_width=width), found, width))
    assert direct - 0.6 <= nested <= direct + 0.05


@pytest.mark.parametrize("planes", [3, 6, 8])
def test_a_block_with_the_book_s_tables_is_what_the_book_decodes(planes: int) -> None:
    """Gate and up share a block and not their tables."""
    parts = [weights(shape, 48, 96) for shape in ("normal", "t5")]
    books = [made(part, planes) for part in parts]
    assert not same(*books)
    shapes = [MatrixShape(48, 96, book.format) for book in books]
    layout = block_layout(shapes, page_bytes=0, floor_planes=1)
    block = np.zeros(layout.span_bytes, np.uint8)
    for part, book, view in zip(parts, books, layout.views, strict=True):
        scales = group_scales(part)
        write_rows(put_into(block), view, 0, Codes(book.format, book.encode(part, scales), Scales(scales)))
        put_into(block)(view.tables_offset, book.tables_bytes())
    table = contiguous_table(layout, block)
    for width in range(1, planes + 1):
        table.widths[0] = width
        for number, (part, book) in enumerate(zip(parts, books, strict=True)):
            found = load_view(table, 0, number).dense(torch.float32).numpy()
            np.testing.assert_array_equal(found, decoded(book, part, width))


@pytest.mark.parametrize("width", range(1, PLANES + 1))
def test_every_further_bit_is_worth_one(width: int) -> None:
    found = weights()
    book = made(found)
    if width == 1:
        assert decibel(found, decoded(book, found, 1)) > 4
        return
    gained = decibel(found, decoded(book, found, width)) - decibel(found, decoded(book, found, width - 1))
    assert 4.5 < gained < 6.5


@pytest.mark.parametrize("width", [3, 4, 5])
def test_importance_lowers_the_error_that_it_weighs(width: int) -> None:
    """Columns of unlike spread, those of the greatest weights seen least."""
    spread = np.repeat(np.linspace(0.2, 3, 32), 32).reshape(32, 32).T.reshape(-1).astype(np.float32)
    found, e = weights() * spread, (1 / spread**3).astype(np.float32)
    with_it, without = (decoded(made(found, e=use), found, width) for use in (e, None))
    assert decibel(found, with_it, e) > decibel(found, without, e) + 0.3
    assert decibel(found, with_it) < decibel(found, without)


@pytest.mark.parametrize("e", [None, moments()])
def test_errors_of_a_book_are_those_of_its_weights(e: F32 | None) -> None:
    found, each = weights("laplace"), np.ones(1024) if e is None else e.astype(np.float64)
    book = made(found, e=e)
    kept = [np.zeros_like(found), *(decoded(book, found, width) for width in range(1, PLANES + 1))]
    exact = [float((np.square(found.astype(np.float64) - one) * each).sum()) for one in kept]
    np.testing.assert_allclose(book.errors, exact, rtol=0.01)
    assert not made(np.zeros((3, 64), np.float32)).errors.any()


def test_the_scale_of_moments_and_weights_does_not_matter() -> None:
    book = made(weights(), e=moments())
    assert same(book, made(weights(), e=moments() * np.float32(2**-20)))
    assert same(book, made(weights() * np.float32(64), e=moments()))


def test_the_order_of_rows_does_not_matter() -> None:
    """Sums over the matrix are exact, so pieces and threads could share it in any way."""
    order = np.random.default_rng(2).permutation(256)
    assert same(made(weights("t5"), e=moments()), made(weights("t5")[order], e=moments()))


def test_threads_beside_each_other_make_the_same_book() -> None:
    book = made(weights(), e=moments())
    with ThreadPoolExecutor(4) as pool:
        assert all(same(book, other) for other in pool.map(lambda _: made(weights(), e=moments()), range(8)))


@pytest.mark.parametrize("planes", [1, 3, 6, 8])
def test_zeros_stay_zeros(planes: int) -> None:
    found = np.zeros((3, 64), np.float32)
    for width in range(1, planes + 1):
        assert not decoded(made(found, planes), found, width).any()


def test_groups_of_zeros_among_others_stay_zeros() -> None:
    found = weights().copy()
    found[:, 32:64] = 0
    assert not decoded(made(found), found, 4)[:, 32:64].any()


@pytest.mark.parametrize("value", [0.5, -0.5, 1e-4, 3.0])
def test_one_value_is_kept_at_every_width(value: float) -> None:
    found = np.full((5, 96), value, np.float32)
    for width in range(1, 9):
        np.testing.assert_allclose(decoded(made(found, 8), found, width), value, rtol=6e-3)


def test_constant_rows_of_either_sign_need_one_bit() -> None:
    found = np.repeat(np.linspace(-3, 2.9, 32, dtype=np.float32)[:, None], 64, axis=1)
    for width in (1, 2, 6):
        np.testing.assert_allclose(decoded(made(found), found, width), found, rtol=1e-3)


def test_a_weight_whose_input_was_never_seen_gets_a_code_too() -> None:
    found = np.full((64, 32), 0.1, np.float32)
    found[:, 0], found[:, 1::2] = 1.0, -0.1
    e = np.ones(32, np.float32)
    e[0] = 0
    np.testing.assert_allclose(decoded(made(found, 3, e=e), found, 3), found, rtol=0.03)


def test_moments_of_nothing_count_as_none() -> None:
    assert same(made(weights()), made(weights(), e=np.zeros(1024, np.float32)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_weights_without_a_scale_are_refused(bad: float) -> None:
    found = np.ones((2, 64), np.float32)
    found[1, 40] = bad
    with pytest.raises(ModelError, match="not finite"):
        made(found)


@pytest.mark.parametrize(
    "bad", [np.full(1024, np.nan), np.full(1024, np.inf), -np.ones(1024), np.ones(1023), np.ones((1, 1024))]
)
def test_moments_that_are_none_of_it_are_refused(bad: F32) -> None:
    with pytest.raises(ValueError, match="moments"):
        made(weights(), e=bad.astype(np.float32))


@pytest.mark.parametrize(("planes", "seed_width"), [(0, 3), (9, 3), (4, 0)])
def test_widths_that_there_are_not_are_refused(planes: int, seed_width: int) -> None:
    with pytest.raises(ValueError, match="planes"):
        made(weights(), planes, seed_width)
