"""Importance matrices of llama.cpp in both formats: what they become, and which are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.imatrix import read_imatrix
from ebbtide.engine.weights.gguf_source import GgufSource
from tests.helpers.tiny_imatrix import Matrices, write_gguf_imatrix, write_legacy_imatrix
from tests.helpers.tiny_models import write_tiny

SEEN = [[300, 0, 500, 400], [100, 200, 600, 300]]
"""Tokens that each of 4 experts saw in each of 2 layers: 600 tokens, two experts each."""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    source = GgufSource(open_gguf(write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf", "qwen3moe")))
    source.close()
    return source.spec


def means_of(spec: ModelSpec, seed: int, cols: int) -> NDArray[np.float64]:
    """[layers, experts, cols]"""
    return np.random.default_rng(seed).uniform(0.5, 2.0, (spec.layers, spec.experts, cols))


def matrices(spec: ModelSpec, *, dense: bool = True) -> dict[str, tuple[NDArray[np.float64], list[int]]]:
    """The entries of a whole model, those of its attention among them."""
    found: dict[str, tuple[NDArray[np.float64], list[int]]] = {}
    for layer, seen in enumerate(SEEN):
        counts = np.array(seen)[:, None]
        gate_up, down = (
            means_of(spec, seed, cols) for seed, cols in ((1, spec.d_model), (2, spec.expert_d_ff))
        )
        if dense:
            found[f"blk.{layer}.attn_q.weight"] = (np.ones((1, spec.d_model)), [600])
        for name in ("gate", "up"):
            found[f"blk.{layer}.ffn_{name}_exps.weight"] = (gate_up[layer] * counts, seen)
        found[f"blk.{layer}.ffn_down_exps.weight"] = (down[layer] * counts, seen)
    return found


def as_single(entries: Matrices) -> Matrices:
    """One tensor an expert, as old files have it."""
    return {
        name.replace("_exps.", f".{expert}."): (sums[expert : expert + 1], [seen[expert]])
        for name, (sums, seen) in entries.items()
        for expert in range(len(seen))
    }


@pytest.mark.parametrize("write", [write_gguf_imatrix, write_legacy_imatrix])
def test_means_are_per_use(write: Callable[[Path, Matrices], Path], spec: ModelSpec, tmp_path: Path) -> None:
    found = read_imatrix(write(tmp_path / "imatrix", matrices(spec)), spec, "tiny.gguf")
    used = np.array(SEEN) > 0
    assert ((found.mass > 0) == used).all() and found.has_down
    for name, seed, cols in (("gate_up", 1, spec.d_model), ("down", 2, spec.expert_d_ff)):
        moments, wanted = getattr(found, name), means_of(spec, seed, cols)
        np.testing.assert_allclose(moments[used], wanted[used], rtol=1e-5)
        share = found.mass[0] / found.mass[0].sum()
        np.testing.assert_allclose(moments[0, 1], (share[:, None] * wanted[0]).sum(axis=0), rtol=1e-5)


def test_counts_become_mass_with_equal_gates(spec: ModelSpec, tmp_path: Path) -> None:
    found = read_imatrix(write_gguf_imatrix(tmp_path / "new", matrices(spec)), spec, "tiny.gguf")
    assert found.tokens == 600
    np.testing.assert_allclose(found.mass, np.array(SEEN) / 600 / spec.top_k**2)


def test_the_older_format_tells_only_who_was_used(spec: ModelSpec, tmp_path: Path) -> None:
    found = read_imatrix(write_legacy_imatrix(tmp_path / "old", matrices(spec)), spec, "tiny.gguf")
    np.testing.assert_allclose(found.mass[0], np.array([1, 0, 1, 1]) / 3 / spec.top_k)
    np.testing.assert_allclose(found.mass[1], np.full(4, 1 / 4 / spec.top_k))
    assert found.tokens == 1024, "two calls of 512 tokens"


def test_experts_of_their_own_tensors(spec: ModelSpec, tmp_path: Path) -> None:
    whole = read_imatrix(write_gguf_imatrix(tmp_path / "whole", matrices(spec)), spec, "tiny.gguf")
    single = as_single(matrices(spec, dense=False))
    found = read_imatrix(write_gguf_imatrix(tmp_path / "single", single), spec, "tiny.gguf")
    np.testing.assert_allclose(found.gate_up, whole.gate_up, rtol=1e-6)
    np.testing.assert_allclose(found.down, whole.down, rtol=1e-6)
    np.testing.assert_allclose(found.mass, whole.mass)
    assert found.tokens == whole.tokens == 600


@pytest.mark.parametrize("write", [write_gguf_imatrix, write_legacy_imatrix])
@pytest.mark.parametrize("change", ["experts", "d_model", "expert_d_ff", "layers"])
def test_that_of_another_model_is_refused_by_name(
    change: str, write: Callable[[Path, Matrices], Path], spec: ModelSpec, tmp_path: Path
) -> None:
    path = write(tmp_path / "imatrix", matrices(spec))
    other = replace(spec, **{change: getattr(spec, change) * 2})
    with pytest.raises(ModelError, match=r"'imatrix' was made for another model than 'other.gguf'"):
        read_imatrix(path, other, "other.gguf")


def test_files_that_are_none(spec: ModelSpec, tmp_path: Path) -> None:
    path = tmp_path / "file"
    legacy = write_legacy_imatrix(path, matrices(spec)).read_bytes()
    gguf = write_gguf_imatrix(path, matrices(spec)).read_bytes()
    without = write_gguf_imatrix(path, matrices(spec), counts=False).read_bytes()
    model = write_tiny(path, "qwen3moe").read_bytes()
    for data in (
        b"",
        b"x",
        b"\0" * 64,
        b"\xff" * 64,
        legacy[:500],
        gguf[:-5000],
        without,
        model,
        b"word " * 99,
    ):
        path.write_bytes(data)
        with pytest.raises(ModelError):
            read_imatrix(path, spec, "tiny.gguf")
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        read_imatrix(path, spec, "tiny.gguf")


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("write", [write_gguf_imatrix, write_legacy_imatrix])
def test_sums_of_squares_are_neither_negative_nor_infinite(
    wrong: float, write: Callable[[Path, Matrices], Path], spec: ModelSpec, tmp_path: Path
) -> None:
    entries = matrices(spec)
    entries["blk.1.ffn_down_exps.weight"][0][2, 5] = wrong
    with pytest.raises(ModelError, match="damaged"):
        read_imatrix(write(tmp_path / "imatrix", entries), spec, "tiny.gguf")


def test_one_that_saw_no_text(spec: ModelSpec, tmp_path: Path) -> None:
    entries = {name: (sums * 0, [0] * len(seen)) for name, (sums, seen) in matrices(spec).items()}
    with pytest.raises(ModelError, match="has seen no text"):
        read_imatrix(write_gguf_imatrix(tmp_path / "imatrix", entries), spec, "tiny.gguf")
