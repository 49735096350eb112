"""llama.cpp loads the expanded file, and with zero deltas computes what it computes for the base."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.starter.conftest import World

llama_cpp = pytest.importorskip("llama_cpp")


def logits(path: Path) -> NDArray[np.float32]:
    model: Any = llama_cpp.Llama(str(path), n_ctx=64, n_threads=1, logits_all=True, verbose=False)
    try:
        model.eval(list(range(5, 29)))
        return np.array(model.scores[:24], np.float32)
    finally:
        model.close()


@pytest.mark.parametrize(("quant", "tolerance"), [("Q8_0", 0.1), ("Q5_1", 0.2), ("Q4_1", 0.2)])
def test_llama_cpp_gives_the_dense_logits(world: World, quant: str, tolerance: float) -> None:
    dense, starter = logits(world.base), logits(world.builder(quant).ensure())
    # Random weights magnify rounding (of weights, and llama.cpp's of activations); wrong weights would
    # differ by about the spread itself.
    assert np.abs(starter - dense).mean() < tolerance * dense.std()
