"""Products with planes, embeddings and experts on a card, against float64."""

import numpy as np
import torch

from ebbtide.kernels.layout import FORMATS, MatrixFormat, MatrixShape, ScaleKind, block_layout
from ebbtide.kernels.ops import BlockTable
from ebbtide.kernels.reference import linear as reference
from ebbtide.kernels.reference import moe as moe_reference
from ebbtide.kernels.triton.embed import embed
from ebbtide.kernels.triton.tables import device_table
from tests.gpu.ground import Ground
from tests.gpu.judge import Judge
from tests.helpers import triton_moe
from tests.helpers.formats import CARD_FORMATS
from tests.helpers.on_card import moved
from tests.helpers.plane_blocks import UNIT, dense_table, scattered_table
from tests.helpers.triton_linear import cols_for, exact_products, products, products_bound, random_rows

MOST_ROWS = 8
PAGE_BYTES = 48 << 10


def check_scale(ground: Ground) -> None:
    """Formats with one scale a group: every width and number of rows; also what is promised of widths."""
    _check_formats(ground, ScaleKind.HALF)
    if not ground.dry:
        with Judge(ground, "linear, width promised") as judge:
            _promised_widths(ground, judge)


def check_minimum(ground: Ground) -> None:
    """The same with a minimum beside the scale, and scaled in half groups."""
    _check_formats(ground, ScaleKind.HALF_MIN, ScaleKind.K8)


def check_nested(ground: Ground) -> None:
    """The same with scales of scales; in scattered pages too."""
    _check_formats(ground, ScaleKind.K6)
    with Judge(ground, "linear, two formats in pages") as judge:
        _paged_products(ground, judge)


def _check_formats(ground: Ground, *kinds: ScaleKind) -> None:
    """All formats of these kinds; in a dry run one of them."""
    formats = [form for form in CARD_FORMATS.values() if form.kind in kinds]
    for form in formats[-1:] if ground.dry else formats:
        with Judge(ground, f"linear {form.name}") as judge:
            _products(ground, judge, form)


def check_experts(ground: Ground) -> None:
    """Experts of mixed widths, some absent and some not asked for; rows of a table of planes."""
    kinds = [("Q4_K", "Q4_K", "Q6_K"), ("Q8_0", "Q5_1", "Q4_0"), ("G8", "Q4_1", "Q5_K")]
    for names in kinds[1:2] if ground.dry else kinds:
        with Judge(ground, f"experts {'/'.join(names)}") as judge:
            _experts(ground, judge, names)
    with Judge(ground, "embed") as judge:
        _embed(ground, judge)


def _products(ground: Ground, judge: Judge, form: MatrixFormat) -> None:
    rng = np.random.default_rng(ground.seed)
    rows, cols = (17, cols_for(form, 32)) if ground.dry else (333, cols_for(form, 1056))
    layout = block_layout([MatrixShape(rows, cols, form)], page_bytes=0, floor_planes=1)
    widths = [int(rng.integers(1, form.planes + 1))] if ground.dry else range(1, form.planes + 1)
    x = random_rows(rng, 3 if ground.dry else MOST_ROWS, cols)
    for width in widths:
        table = dense_table(layout, rng, width)
        out = products(x.to(ground.device), table)
        judge.near(f"width {width}", out, exact_products(x, table), products_bound(x, table))
        for count in [1] if ground.dry else range(1, MOST_ROWS + 1):
            first = len(x) - count  # other neighbours than in the whole
            part = products(x[first:].to(ground.device), table)
            judge.same(f"width {width}, {count} rows", part, out[first:])


def _paged_products(ground: Ground, judge: Judge) -> None:
    rng = np.random.default_rng(ground.seed + 1)
    size = (13, 256, 4096) if ground.dry else (200, 2048, PAGE_BYTES)
    shapes = [
        MatrixShape(size[0] + 16 * i, size[1], FORMATS[name]) for i, name in enumerate(("Q4_K", "Q6_K"))
    ]
    layout = block_layout(shapes, page_bytes=size[2], floor_planes=2)
    table = scattered_table(layout, rng, [layout.planes, 3, 2])
    for index in range(1 if ground.dry else 3):
        x = random_rows(rng, 1, size[1])
        out = products(x.to(ground.device), table, index)
        judge.near(f"block {index}", out, exact_products(x, table, index), products_bound(x, table, index))


def _promised_widths(ground: Ground, judge: Judge) -> None:
    rng = np.random.default_rng(ground.seed + 2)
    x = random_rows(rng, 1, 1024).to(ground.device)
    layout = block_layout([MatrixShape(64, 1024, FORMATS["Q8_0"])], page_bytes=0, floor_planes=1)
    for width in range(1, 9):
        table = dense_table(layout, rng, width)
        judge.same(f"width {width}", products(x, table, width=width), products(x, table))


def _experts(ground: Ground, judge: Judge, names: tuple[str, str, str]) -> None:
    rng = np.random.default_rng(ground.seed + 3)
    rows, dim, d_ff = (2, 32, 32) if ground.dry else (MOST_ROWS, 512, 768)
    page_bytes = 4096 if ground.dry else PAGE_BYTES
    pair = triton_moe.experts(names, dim, d_ff, [8, 3, 6, 2, 0], page_bytes)
    x = torch.from_numpy(rng.standard_normal((rows, dim)).astype(np.float32))
    idx = torch.from_numpy(rng.integers(0, 5, (rows, 2)).astype(np.int32))
    idx[0] = torch.tensor([0, 4])
    chosen = torch.tensor([1, 1, 1, 0, 1], dtype=torch.uint8)
    absent = int((idx == 4).sum())
    out = triton_moe.run(x.to(ground.device), idx, chosen, pair, faults=absent)
    exact = np.full(out.shape, triton_moe.UNTOUCHED, np.float32)
    present = (chosen.numpy() != 0) & (np.arange(5) != 4)
    moe_reference.moe(x.numpy(), idx.numpy(), present.astype(np.uint8), *pair, exact, "silu")
    for m, j in np.ndindex(rows, 2):
        expert, wanted = int(idx[m, j]), torch.from_numpy(exact[m, j])
        if present[expert]:
            limit = triton_moe.bound(x[m], expert, pair) + UNIT * wanted.abs()
            judge.near(f"row {m}, expert {expert}", out[m, j], wanted, limit)
        else:
            judge.same(f"row {m}, expert {expert}", out[m, j], wanted)
    part = slice(rows - 1, rows)
    absent = int((idx[part] == 4).sum())
    alone = triton_moe.run(x[part].to(ground.device), idx[part], chosen, pair, faults=absent)
    judge.same("a row alone", alone, out[part])


def _embed(ground: Ground, judge: Judge) -> None:
    rng = np.random.default_rng(ground.seed + 4)
    for form in [FORMATS["Q5_1"]] if ground.dry else CARD_FORMATS.values():
        cols = cols_for(form, 64 if ground.dry else 2048)
        layout = block_layout([MatrixShape(333, cols, form)], page_bytes=0, floor_planes=1)
        table = dense_table(layout, rng, form.planes)
        ids = rng.integers(0, 333, 2 if ground.dry else 40).astype(np.int32)
        exact = np.empty((len(ids), cols), np.float32)
        reference.embed(table, ids, exact)
        judge.same(form.name, _embedded(ground, table, ids), torch.from_numpy(exact))


def _embedded(
    ground: Ground, table: BlockTable, ids: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> torch.Tensor:
    out = torch.full((len(ids), table.layout.cols), torch.nan, device=ground.device)
    fault = torch.zeros(1, dtype=torch.int32, device=ground.device)
    there = device_table(moved(table, ground.device), ground.device)
    embed(there, torch.from_numpy(ids).to(ground.device), out, fault)
    assert fault.item() == 0
    return out
