"""The picture of a model's experts that viewers get: taken at a safe point, only when somebody looks."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.messages import Residency
from ebbtide.engine.precision.bounds import Bounds
from ebbtide.engine.runtime import Runtime
from ebbtide.kernels.layout import MAX_PLANES


def residency(runtime: Runtime, bounds: Bounds | None = None) -> Residency:
    """Take the picture; `bounds` where widths change. For safe points of the step thread."""
    fast, memory = runtime.fast, runtime.memory()
    spare = fast.arena.spare_bytes
    table, pager = fast.table, fast.pager
    if table is None or pager is None:
        return Residency(runtime.spec.layers, 0, b"", b"", b"", [], b"", 0, spare, memory)
    return Residency(
        layers=table.layers,
        experts=table.experts,
        widths=table.available.min(axis=1).tobytes(),
        uses=np.ascontiguousarray(pager.uses(), "<u4").tobytes(),
        pinned=pager.pins().tobytes(),
        slots=pager.quotas,
        pages=_pages(table).astype("<u4").tobytes(),
        page_bytes=fast.arena.page_bytes,
        spare_bytes=spare,
        memory=memory,
        block_widths=np.where(table.available > 0, table.available, table.reach).tobytes(),
        bounds=b"" if bounds is None else bounds.least.min(axis=1).tobytes(),
        held=b"" if bounds is None else _held(bounds).tobytes(),
        width_bytes=_width_bytes(table, fast.arena.page_bytes),
        average_bits=runtime.costs.average_bits(table.committed),
    )


def _held(bounds: Bounds) -> NDArray[np.uint8]:
    """u8[layers, experts]"""
    held: NDArray[np.uint8] = (
        ((bounds.least == bounds.most) & (bounds.least > 0)).all(axis=1).astype(np.uint8)
    )
    return held


def _width_bytes(table: WeightPageTable, page_bytes: int) -> list[int]:
    """Of the blocks that are here with so many planes."""
    pages = table.block_pages_of(table.available)
    sums = np.bincount(table.available.reshape(-1), pages.reshape(-1), minlength=MAX_PLANES + 1)
    sums[0] = 0
    return [int(count) * page_bytes for count in sums]


def _pages(table: WeightPageTable) -> NDArray[np.int64]:
    """i64[layers, experts]: what is here has the planes that it has, whatever is committed."""
    is_here = table.available.any(axis=1)
    return np.where(is_here, table.pages_of(table.available), table.pages_of(table.reach))
