"""Observers of a pass: what they add up, that they change nothing, and which chunks are sampled."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.model.layer import U8, LayerPass
from ebbtide.engine.precision.gathering import Gatherer, InputGatherer, SampledMoments, routed_rows
from ebbtide.engine.precision.moments import Sums
from ebbtide.engine.runtime import Runtime
from ebbtide.kernels.ops import BlockTable
from tests.helpers.in_process import load
from tests.helpers.passes import rows_of
from tests.helpers.tiny_models import write_tiny


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """Two of eight experts a layer fit, so they come in several groups."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    write_tiny(path, "qwen3moe", experts=8, layers=3)
    runtime = Runtime.load(load(path, budget="25%"), lambda *_: None)
    yield runtime
    runtime.close()


class Recorder:
    """Keeps copies of what a pass shows, and how often each expert of a layer was in a group."""

    def __init__(self) -> None:
        self.normed: list[NDArray[np.float32]] = []
        self.chosen: list[NDArray[np.int32]] = []
        self.gates: list[NDArray[np.float32]] = []
        self.groups: list[list[int]] = []

    def routed(self, layer: int, at: LayerPass) -> None:
        self.normed.append(at.rows.normed.copy())
        self.chosen.append(at.rows.chosen.copy())
        self.gates.append(at.rows.gates.copy())
        self.groups.append([])

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        self.groups[layer] += [int(expert) for expert in np.flatnonzero(resident)]


@pytest.mark.parametrize("count", [1, 90])
def test_the_sums_are_those_of_what_the_pass_shows(count: int, runtime: Runtime) -> None:
    ids, spec = [3 + at % 200 for at in range(count)], runtime.spec
    seen, sums = Recorder(), Sums(spec)
    rows_of(runtime, ids, seen)
    rows_of(runtime, ids, Gatherer(spec, sums, count))
    assert sums.tokens == count
    for layer in range(spec.layers):
        for expert in range(spec.experts):
            weights = np.where(seen.chosen[layer] == expert, seen.gates[layer].astype(float) ** 2, 0).sum(
                axis=1
            )
            np.testing.assert_allclose(sums.mass[layer, expert], weights.sum(), rtol=1e-9)
            wanted = (weights[:, None] * seen.normed[layer].astype(float) ** 2).sum(axis=0)
            np.testing.assert_allclose(sums.gate_up[layer, expert], wanted, rtol=1e-6)
            assert (sums.down[layer, expert] > 0).any() == (weights.sum() > 0)


def test_each_chosen_expert_is_in_one_group(runtime: Runtime) -> None:
    seen = Recorder()
    rows_of(runtime, [3 + at % 200 for at in range(90)], seen)
    for chosen, group in zip(seen.chosen, seen.groups, strict=True):
        assert [group.count(expert) for expert in np.unique(chosen)] == [1] * len(np.unique(chosen))


@pytest.mark.parametrize("count", [1, 2, 70])
def test_a_pass_that_is_watched_gives_the_same_rows(count: int, runtime: Runtime) -> None:
    ids = [5 + at % 90 for at in range(count)]
    plain = rows_of(runtime, ids, None)
    assert (rows_of(runtime, ids, Gatherer(runtime.spec, Sums(runtime.spec), count)) == plain).all()


def test_rows_of_each_expert() -> None:
    chosen = np.array([[4, 1], [1, 0], [4, 0]], np.int32)
    gates = np.array([[0.5, 0.25], [1.0, 0.5], [2.0, 4.0]], np.float32)
    found = {
        expert: (part.rows.tolist(), part.weights.tolist())
        for expert, part in routed_rows(chosen, gates).items()
    }
    assert found == {0: ([1, 2], [0.25, 16.0]), 1: ([0, 1], [0.0625, 1.0]), 4: ([0, 2], [0.25, 4.0])}


def test_samples_are_one_chunk_in_so_many(runtime: Runtime) -> None:
    spec, samples, sums = (
        runtime.spec,
        SampledMoments(runtime.spec, every=3),
        Sums(runtime.spec, hidden=False),
    )
    chunks = [[start + 3 + at for at in range(20)] for start in range(7)]
    for ids in chunks:
        rows_of(runtime, ids, samples.next_chunk())
    for ids in chunks[::3]:
        rows_of(runtime, ids, InputGatherer(sums))
    found, wanted = samples.moments(), sums.moments()
    assert samples.tokens == found.tokens == 60 and not found.has_down
    assert (found.gate_up == wanted.gate_up).all() and (found.mass == wanted.mass).all()
    assert (found.down == 1).all() and found.down.shape == (spec.layers, spec.experts, spec.expert_d_ff)


def test_a_cancelled_chunk_counts_in_the_layers_that_saw_it(runtime: Runtime) -> None:
    """Mass is per token of each layer: else the last ones would look as if nobody asked for them."""
    samples = SampledMoments(runtime.spec, every=1)
    rows_of(runtime, [3 + at for at in range(40)], samples.next_chunk())
    whole, asked = samples.moments().mass, iter([False, False, True])
    observer = samples.next_chunk()
    with pytest.raises(Cancelled):
        rows_of(runtime, [3 + at for at in range(40)], observer, lambda: next(asked))
    found = samples.moments().mass
    np.testing.assert_allclose(found, whole, rtol=1e-9)
    assert samples.tokens == 80
