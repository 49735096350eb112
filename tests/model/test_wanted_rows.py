"""Rows that nobody reads are not computed behind the last layer's keys; what is left has the same bits."""

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import load
from tests.helpers.tiny_models import Family, write_tiny

TOKENS = 40


def scores_after(path: Path, parts: list[int], *, spare: bool) -> list[NDArray[np.float32]]:
    """Scores behind a prompt in `parts`, and behind a token more; `spare`: ask for as few rows as can be."""
    runtime = Runtime.load(load(path, budget="50%"), lambda *_: None)
    ids = [5 + i % 50 for i in range(sum(parts))]
    sequence, found = runtime.pool.new_sequence(), []

    def step(part: list[int], lane: Lane, wanted: int) -> None:
        start = sequence.length
        runtime.pool.extend(sequence, len(part), Provenance(lane, runtime.kv.format))
        view, last = runtime.kv_view(sequence), wanted if spare else None
        rows = runtime.forward.hidden(np.array(part, np.int32), start, view, lambda: False, last)
        assert len(rows) == (wanted if spare else len(part))
        if wanted:
            runtime.forward.logits(rows[-1:], runtime.logits[:1])
            found.append(runtime.logits[0].copy())

    for index, size in enumerate(parts):
        step(ids[sequence.length :][:size], Lane.PREFILL, int(index == len(parts) - 1))
    step([7], Lane.DECODE, 1)
    runtime.pool.release(sequence)
    runtime.close()
    return found


@pytest.mark.parametrize("family", get_args(Family))
@pytest.mark.parametrize("parts", [[TOKENS], [TOKENS - 1, 1], [1, 15, TOKENS - 16]])
def test_spared_rows_change_no_bit(tmp_path: Path, family: Family, parts: list[int]) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", family)
    spared, whole = (scores_after(path, parts, spare=spare) for spare in (True, False))
    assert all((a == b).all() for a, b in zip(spared, whole, strict=True))
