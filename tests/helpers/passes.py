"""One pass through a loaded model, for those who look on."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Forward, LayerObserver
from ebbtide.engine.runtime import Runtime


def rows_of(
    runtime: Runtime,
    ids: list[int],
    observer: LayerObserver | None,
    cancelled: Callable[[], bool] = lambda: False,
) -> NDArray[np.float32]:
    """The last rows f32[len(ids), D] of a text from its beginning, at once."""
    forward = runtime.forward
    assert isinstance(forward, Forward)
    sequence = runtime.pool.new_sequence()
    try:
        runtime.pool.extend(sequence, len(ids), runtime.fast.provenance(Lane.PREFILL))
        view = runtime.kv_view(sequence)
        return forward.hidden(np.array(ids, np.int32), 0, view, cancelled, observer=observer).copy()
    finally:
        runtime.pool.release(sequence)
