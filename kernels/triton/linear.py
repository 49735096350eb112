"""Products of a few rows with plane matrices (decode)."""

import torch
import triton
import triton.language as tl

from ebbtide.kernels.triton.arrange import arranged_shape
from ebbtide.kernels.triton.planes import MIXED, known_width
from ebbtide.kernels.triton.products import strip_products
from ebbtide.kernels.triton.scales import row_pair
from ebbtide.kernels.triton.tables import DeviceTable
from ebbtide.kernels.triton.views import HALF_COLS, tiling_for, view_of

ROW_COUNTS = (8, 4, 2, 1)


def linear(
    arranged: torch.Tensor,
    w: DeviceTable,
    out: torch.Tensor,
    fault: torch.Tensor,
    *,
    index: int = 0,
    bias: torch.Tensor | None = None,
    accumulate: bool = False,
    width: int = MIXED.value,
) -> None:
    """out[M, N] (+)= x W^T (+ bias[N]); `arranged` holds x (`arrange.py`), W is block `index`, views
    concatenated.

    out f32 [M, N] may have a row stride. `width` promises what the block's width is (`planes.py`). An absent
    block leaves `out` as it is and adds 1 to `fault` i32 [1] once a view.
    """
    rows = arranged.shape[0]
    assert arranged.is_contiguous() and arranged.shape == arranged_shape(rows, w.layout.cols)
    assert out.shape == (rows, w.layout.rows) and out.stride(1) == 1
    start = 0
    for count in ROW_COUNTS:
        while rows - start >= count:
            part = slice(start, start + count)
            _linear_rows(arranged[part], w, out[part], fault, index, bias, accumulate, width)
            start += count


def _linear_rows(
    arranged: torch.Tensor,
    w: DeviceTable,
    out: torch.Tensor,
    fault: torch.Tensor,
    index: int,
    bias: torch.Tensor | None,
    accumulate: bool,
    width: int,
) -> None:
    """One launch for each view; the number of rows is one of `ROW_COUNTS`."""
    halves, warps = tiling_for(w.layout.cols)
    first = 0
    for number, matrix in enumerate(w.layout.views):
        rows = matrix.shape.rows
        linear_kernel[(matrix.shape.strips,)](
            arranged,
            arranged.stride(0),
            w.addresses[index],
            w.widths[index:],
            view_of(w.layout, number),
            out[:, first:],
            out if bias is None else bias[first:],
            fault,
            rows,
            w.layout.cols // HALF_COLS,
            out.stride(0),
            ROWS=len(arranged),
            KIND=int(matrix.shape.format.kind),
            WIDTH=known_width(width, matrix.shape.format.planes),
            PAGE=w.page_bytes,
            HALVES=halves,
            BIAS=bias is not None,
            ACCUMULATE=accumulate,
            num_warps=warps,
            enable_fp_fusion=False,
        )
        first += rows


@triton.jit
def linear_kernel(
    arranged,
    arranged_step,
    pages,
    widths,
    view,
    out,
    bias,
    fault,
    rows,
    halves,
    out_step,
    ROWS: tl.constexpr,
    KIND: tl.constexpr,
    WIDTH: tl.constexpr,
    PAGE: tl.constexpr,
    HALVES: tl.constexpr,
    BIAS: tl.constexpr,
    ACCUMULATE: tl.constexpr,
):
    """Program t writes the 16 outputs of strip t for each of ROWS rows."""
    strip = tl.program_id(0)
    width = tl.load(widths)
    if width == 0:
        if strip == 0:
            tl.atomic_add(fault, 1)
    else:
        even, odd = strip_products(
            pages, view, strip, arranged, arranged_step, halves, width, ROWS, KIND, WIDTH, PAGE, HALVES
        )
        row = strip * 16 + 2 * row_pair(tl.arange(0, 8))
        for m in tl.static_range(ROWS):
            put(out + m * out_step, bias, row, even[m], rows, BIAS, ACCUMULATE)
            put(out + m * out_step, bias, row + 1, odd[m], rows, BIAS, ACCUMULATE)


@triton.jit
def put(out, bias, row, value, rows, BIAS: tl.constexpr, ACCUMULATE: tl.constexpr):
    """out[row] = (out[row] +) (value + bias[row]) where row < rows."""
    live = row < rows
    if BIAS:
        value += tl.load(bias + row, mask=live)
    if ACCUMULATE:
        value += tl.load(out + row, mask=live)
    tl.store(out + row, value, mask=live)
