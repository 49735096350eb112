"""The picture of a model's experts that viewers get: taken at a safe point, only when somebody looks."""

import numpy as np

from ebbtide.engine.messages import Residency
from ebbtide.engine.runtime import Runtime


def residency(runtime: Runtime) -> Residency:
    """Take the picture. For safe points of the step thread."""
    fast, memory = runtime.fast, runtime.memory()
    spare = fast.arena.spare_bytes
    table, pager = fast.table, fast.pager
    if table is None or pager is None:
        return Residency(runtime.spec.layers, 0, b"", b"", b"", [], [], spare, memory)
    return Residency(
        layers=table.layers,
        experts=table.experts,
        widths=table.available.min(axis=1).tobytes(),
        uses=np.ascontiguousarray(pager.uses(), "<u4").tobytes(),
        pinned=pager.pins().tobytes(),
        slots=pager.quotas,
        expert_bytes=[pages * fast.arena.page_bytes for pages in table.pages_per_expert],
        spare_bytes=spare,
        memory=memory,
    )
