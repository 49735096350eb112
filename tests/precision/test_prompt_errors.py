"""What layers err at lower widths in a passage: of the rows as they were, whatever came into memory when."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ebbtide.engine.model.layer import U8, LayerPass
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.prompt_errors import PromptErrors, lower_widths
from ebbtide.engine.runtime import Runtime
from ebbtide.kernels.ops import BlockTable
from tests.helpers.in_process import load
from tests.helpers.passes import rows_of
from tests.helpers.tiny_models import write_tiny


class ByHand:
    """One expert and one token at a time, in float64."""

    def __init__(self) -> None:
        self.errors: dict[int, float] = {}
        self.tokens = 0

    def routed(self, layer: int, at: LayerPass) -> None:
        self.errors[layer] = 0.0
        self.tokens = len(at.rows.chosen)

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        for row, chosen in enumerate(at.rows.chosen):
            for slot, expert in enumerate(chosen):
                if resident[expert]:
                    full = output(at, row, int(expert), gate_up, down)
                    lower = output(at, row, int(expert), _lowered(gate_up), _lowered(down))
                    gate = float(at.rows.gates[row, slot])
                    self.errors[layer] += gate**2 * float(np.square(full - lower).sum())


def output(at: LayerPass, row: int, expert: int, gate_up: BlockTable, down: BlockTable) -> F64:
    spec, normed = at.spec, at.rows.normed[row : row + 1]
    both = np.zeros((1, 2 * spec.expert_d_ff), np.float32)
    hidden, out = np.zeros((1, spec.expert_d_ff), np.float32), np.zeros((1, spec.d_model), np.float32)
    at.ops.linear(normed, gate_up, both, index=expert)
    at.ops.glu(both, hidden, spec.activation)
    at.ops.linear(hidden, down, out, index=expert)
    return out.astype(np.float64)


def _lowered(table: BlockTable) -> BlockTable:
    return replace(table, widths=np.where(table.widths > 0, 5, 0).astype(np.uint8), native={})


def test_widths_lie_below_all_planes_and_an_absent_block_stays_absent() -> None:
    planes = np.array([8, 6, 5, 4, 3, 2, 1], np.uint8)
    assert lower_widths(planes).tolist() == [5, 4, 3, 3, 2, 1, 1]


@pytest.fixture(scope="module", params=["100%", "25%"])
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny(path, "qwen3moe", experts=8, layers=3, d_model=128, expert_d_ff=128)
    opened = Runtime.load(load(path, budget=request.param, isa="reference"), lambda *_: None)
    yield opened
    opened.close()


def test_they_are_those_of_one_expert_and_token_at_a_time(runtime: Runtime) -> None:
    """Also of more rows than are computed at once, and where experts come in several groups."""
    ids = [3 + at % 200 for at in range(90)]
    found, expected = PromptErrors(runtime.spec), ByHand()
    found.begin()
    plain = rows_of(runtime, ids, None)
    assert (rows_of(runtime, ids, found) == plain).all(), "the passage itself is not changed"
    rows_of(runtime, ids, expected)
    errors = np.array([expected.errors[layer] for layer in range(runtime.spec.layers)]) / len(ids)
    assert (errors > 0).all()
    np.testing.assert_allclose(found.errors, errors, rtol=1e-3)


def test_passages_are_told_apart(runtime: Runtime) -> None:
    found, ids = PromptErrors(runtime.spec), list(range(3, 40))
    found.begin()
    rows_of(runtime, ids[:20], found)
    first = found.errors, found.mass
    assert first[1].shape == (runtime.spec.layers, runtime.spec.experts)
    found.begin()
    rows_of(runtime, ids[20:], found)
    assert (found.errors != first[0]).all() and (found.mass != first[1]).any()
    found.begin()
    rows_of(runtime, ids[:20], found)
    assert (found.errors == first[0]).all() and (found.mass == first[1]).all()
