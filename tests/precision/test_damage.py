"""Damage of a model's blocks: the definition over what the source gives, read ahead, cancelled, damaged."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ebbtide.engine.errors import ModelError
from ebbtide.engine.precision.damage import all_damage, block_damage, measure_all
from ebbtide.engine.weights.codes import F32
from ebbtide.engine.weights.direct import Target
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.open import open_weights
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.engine.weights.pack_write import write_pack
from ebbtide.engine.weights.planes import dequantise
from ebbtide.engine.weights.source import KINDS, Kind, WeightSource
from ebbtide.kernels.code_mass import F64
from ebbtide.kernels.dispatch import IsaChoice
from ebbtide.kernels.ops import KernelError
from tests.helpers.attention_kernels import isas
from tests.helpers.paged import read_block
from tests.helpers.tiny_models import write_tiny

PAGE = 4096
TYPES = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4", "BF16"]
SUPER_TYPES = ["Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]


@dataclass(frozen=True)
class Moments:
    gate_up: F32
    down: F32


def tiny(folder: Path, quant: str = "Q8_0", **options: object) -> Path:
    sizes = {"d_model": 256, "expert_d_ff": 256} if quant in SUPER_TYPES else {"expert_d_ff": 96}
    types = {"*.ffn_*_exps.*": quant} | dict(options.pop("types", {}))  # type: ignore[call-overload]
    return write_tiny(folder / "tiny.gguf", "qwen3moe", types=types, **sizes, **options)  # type: ignore[arg-type]


def random_moments(source: WeightSource) -> Moments:
    rng, spec = np.random.default_rng(6), source.spec
    cols = [source.expert_layout(0, kind).cols for kind in KINDS]
    parts = [rng.gamma(0.5, size=(spec.layers, spec.experts, n)).astype(np.float32) for n in cols]
    return Moments(*parts)


def defined(source: WeightSource, layer: int, kind: Kind, expert: int, moments: F32 | None) -> F64:
    """The sum as it is written: weights at every width against the whole ones."""
    layout = source.expert_layout(layer, kind)
    block, _ = read_block(source, layer, expert, kind)
    whole = [dequantise(block, view).astype(np.float64) for view in layout.views]
    weighed = np.ones(layout.cols) if moments is None else moments.astype(np.float64)
    damage = np.zeros(layout.planes + 1)
    damage[0] = sum(float((np.square(w) @ weighed).sum()) for w in whole)
    for width in range(1, layout.planes + 1):
        for view, w in zip(layout.views, whole, strict=True):
            damage[width] += float((np.square(w - dequantise(block, view, width)) @ weighed).sum())
    return damage


@pytest.mark.parametrize("quant", TYPES + SUPER_TYPES)
def test_a_block_has_the_damage_of_the_definition(tmp_path: Path, quant: str) -> None:
    source = open_weights(tiny(tmp_path, quant), page_bytes=PAGE)
    moments = random_moments(source)
    for kind, rows in zip(KINDS, (moments.gate_up, moments.down), strict=True):
        for row in (None, rows[1, 2]):
            found = block_damage(source, 1, kind, 2, row)
            # The definition rounds weights to float32 before it subtracts them.
            np.testing.assert_allclose(found, defined(source, 1, kind, 2, row), rtol=1e-4)
            assert found[-1] == 0 and (np.diff(found) <= 0).all()
    source.close()


def test_gate_and_up_of_different_types(tmp_path: Path) -> None:
    """The block is as wide as its widest matrix; the other one is whole before."""
    path = tiny(tmp_path, types={"*.ffn_gate_exps.*": "Q4_0"})
    source = open_weights(path, page_bytes=PAGE)
    found = block_damage(source, 0, "gate_up", 0, None)
    assert len(found) == 9
    np.testing.assert_allclose(found, defined(source, 0, "gate_up", 0, None), rtol=1e-4)
    source.close()


def test_all_blocks_of_files_and_packs_with_any_threads(tmp_path: Path) -> None:
    path = tiny(tmp_path, "Q5_1", types={"*.ffn_down_exps.*": "Q8_0"})
    pack = write_pack(path, tmp_path / "tiny.pack.gguf", page_bytes=PAGE)
    plain, packed = open_weights(path, page_bytes=PAGE), open_weights(pack)
    assert isinstance(plain, GgufSource) and isinstance(packed, PackSource)
    moments = random_moments(plain)
    found = all_damage(plain, moments, lambda done, total: None)
    assert found.shape == (2, 2, 4, 9) and found.dtype == np.float32
    for threads in (1, 2):
        assert (
            all_damage(packed, moments, lambda done, total: None, threads=threads).tobytes()
            == found.tobytes()
        )
    for layer, expert in ((0, 0), (1, 3)):
        one = block_damage(plain, layer, "gate_up", expert, moments.gate_up[layer, expert])
        assert np.array_equal(found[layer, 0, expert, :6], one.astype(np.float32))
        assert not found[layer, 0, expert, 5:].any()
        one = block_damage(plain, layer, "down", expert, moments.down[layer, expert])
        assert np.array_equal(found[layer, 1, expert], one.astype(np.float32))
    plain.close()
    packed.close()


def test_every_instruction_set_and_the_reference(tmp_path: Path) -> None:
    source = open_weights(tiny(tmp_path, "Q4_1"), page_bytes=PAGE)
    names: list[IsaChoice] = ["portable", "avx2", "avxvnni", "avx512", "amx", "reference"]
    runnable = [name for name in names if name in (*isas(), "reference")]
    by_isa = {
        isa: [(at, list(masses)) for *at, masses in measure_all(source, None, lambda d, t: None, isa=isa)]
        for isa in runnable
    }
    wanted = by_isa["portable"]
    assert [at for at, _ in wanted] == [[a, k, e] for a in range(2) for k in KINDS for e in range(4)]
    for isa, found in by_isa.items():
        for (at, masses), (at_wanted, masses_wanted) in zip(found, wanted, strict=True):
            assert at == at_wanted
            for one, other in zip(masses, masses_wanted, strict=True):
                if isa == "reference":
                    np.testing.assert_allclose(one.damage(), other.damage(), rtol=1e-5)
                else:
                    assert one.mass.tobytes() == other.mass.tobytes() and one.energy == other.energy
    source.close()


def test_progress_and_cancelling(tmp_path: Path) -> None:
    source = open_weights(tiny(tmp_path), page_bytes=PAGE)
    seen: list[tuple[int, int]] = []
    all_damage(source, None, lambda done, total: seen.append((done, total)))
    assert seen == [(done, 16) for done in range(17)]

    class Cancelled(Exception):
        pass

    def cancel(done: int, total: int) -> None:
        if done == 5:
            raise Cancelled

    with pytest.raises(Cancelled):
        all_damage(source, None, cancel)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("damage-reader")]
    block_damage(source, 0, "down", 0, None)  # the source is as usable as before
    source.close()


def test_two_blocks_at_most_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the first is done before the third is read over it."""
    source = open_weights(tiny(tmp_path), page_bytes=PAGE)
    assert isinstance(source, GgufSource)
    events: list[str] = []
    addresses: set[int] = set()
    read = source.read_expert

    def watched(layer: int, expert: int, kind: Kind, first: int, last: int, targets: Sequence[Target]) -> int:
        addresses.update(at for at, _ in targets)
        assert all(at % 4096 == 0 and size % 4096 == 0 for at, size in targets)
        events.append("read")
        return read(layer, expert, kind, first, last, targets)

    monkeypatch.setattr(source, "read_expert", watched)
    for _ in measure_all(source, None, lambda done, total: None):
        events.append("measured")
    assert len(addresses) == 2
    for number in range(2, 16):
        reads = [i for i, event in enumerate(events) if event == "read"]
        measured = [i for i, event in enumerate(events) if event == "measured"]
        assert reads[number] > measured[number - 2]
    source.close()


def test_a_file_that_ends_early_is_a_model_error(tmp_path: Path) -> None:
    path = tiny(tmp_path)
    source = open_weights(path, page_bytes=PAGE)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(ModelError):
        all_damage(source, None, lambda done, total: None)
    source.close()


def test_refuses_moments_that_are_none(tmp_path: Path) -> None:
    source = open_weights(tiny(tmp_path), page_bytes=PAGE)
    for bad in (np.ones(3, np.float32), np.full(128, np.nan, np.float32), np.full(128, -1, np.float32)):
        with pytest.raises(KernelError, match="moments"):
            block_damage(source, 0, "gate_up", 0, bad)
    source.close()


def test_a_dense_model_has_no_blocks(tmp_path: Path) -> None:
    source = open_weights(write_tiny(tmp_path / "dense.gguf", "llama"), page_bytes=PAGE)
    assert all_damage(source, None, lambda done, total: None).size == 0
    source.close()
