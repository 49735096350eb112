"""The C description of a `BlockTable` (mirrors src/block.h), made once per table."""

import ctypes
from functools import cache

import numpy as np

from ebbtide.kernels.cpu.library import address
from ebbtide.kernels.layout import MAX_PLANES, TABLE_ZERO, MatrixFormat, MatrixView
from ebbtide.kernels.ops import U8, BlockTable, KernelError

MAX_VIEWS = 4


class NativeView(ctypes.Structure):
    """`View` of block.h."""

    _fields_ = (
        ("rows", ctypes.c_int32),
        ("cols", ctypes.c_int32),
        ("planes", ctypes.c_int32),
        ("zero", ctypes.c_int32),
        ("scale", ctypes.c_int32),
        ("strip_meta_bytes", ctypes.c_int32),
        ("meta_offset", ctypes.c_int64),
        ("plane_offset", ctypes.c_int64 * MAX_PLANES),
        ("tables", ctypes.c_void_p),
        ("tables_offset", ctypes.c_int64),
    )


class NativeBlock(ctypes.Structure):
    """`Block` of block.h."""

    _fields_ = (
        ("blocks", ctypes.c_int32),
        ("views", ctypes.c_int32),
        ("page_bytes", ctypes.c_int64),
        ("page_count", ctypes.c_int64),
        ("pages_per_slab", ctypes.c_int32),
        ("slabs", ctypes.c_int32),
        ("slab_bases", ctypes.c_void_p),
        ("page_table", ctypes.c_void_p),
        ("widths", ctypes.c_void_p),
        ("view", NativeView * MAX_VIEWS),
    )


@cache
def _tables(form: MatrixFormat) -> U8:
    """Bytes u8[MAX_PLANES, 256]: entries + 128 of the table of every width; kept for good."""
    tables = np.zeros((MAX_PLANES, 1 << MAX_PLANES), np.uint8)
    for width in range(1, form.planes + 1):
        tables[width - 1, : 1 << width] = np.array(form.table_at(width)) + TABLE_ZERO
    return tables


def _native_view(view: MatrixView) -> NativeView:
    shape = view.shape
    native = NativeView(
        shape.rows,
        shape.cols,
        shape.format.planes,
        shape.format.zero,
        int(shape.format.kind),
        shape.strip_meta_bytes,
        view.meta_offset,
    )
    native.plane_offset[: len(view.plane_offsets)] = view.plane_offsets
    native.tables_offset = view.tables_offset
    if shape.format.table:
        native.tables = address(_tables(shape.format))
    return native


def _build(table: BlockTable) -> NativeBlock:
    layout, pages = table.layout, table.pages
    _check(table)
    native = NativeBlock(
        table.blocks,
        len(layout.views),
        pages.page_bytes,
        layout.page_count,
        pages.pages_per_slab,
        len(pages.slab_bases),
        address(pages.slab_bases),
        address(table.page_table),
        address(table.widths),
    )
    for i, view in enumerate(layout.views):
        native.view[i] = _native_view(view)
    return native


def _check(table: BlockTable) -> None:
    layout, wanted = table.layout, (table.blocks, table.layout.page_count)
    arrays = (
        (table.page_table, np.int32, wanted),
        (table.widths, np.uint8, (table.blocks,)),
        (table.pages.slab_bases, np.uint64, (len(table.pages.slab_bases),)),
    )
    for array, dtype, shape in arrays:
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise KernelError(f"block table: {array.dtype} {array.shape} is not {dtype.__name__} {shape}")
    if len(layout.views) > MAX_VIEWS or any(view.shape.cols != layout.cols for view in layout.views):
        raise KernelError(f"block table: at most {MAX_VIEWS} views, all with the same columns")


def native_block(table: BlockTable) -> int:
    """Address of the C description of `table`; both live as long as the table does."""
    known = table.native.get("cpu")
    if known is None:
        native = _build(table)
        known = (ctypes.addressof(native), native)
        table.native["cpu"] = known
    assert isinstance(known, tuple)
    return int(known[0])
