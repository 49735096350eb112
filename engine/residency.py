"""The picture of a model's experts that viewers get: taken at a safe point, only when somebody looks."""

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.messages import Residency
from ebbtide.engine.runtime import Runtime


def residency(runtime: Runtime) -> Residency:
    """Take the picture. For safe points of the step thread."""
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
    )


def _pages(table: WeightPageTable) -> NDArray[np.int64]:
    """i64[layers, experts]: what is here has the planes that it has, whatever is committed."""
    is_here = table.available.any(axis=1)
    return np.where(is_here, table.pages_of(table.available), table.pages_of(table.reach))
