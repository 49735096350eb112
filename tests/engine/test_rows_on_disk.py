"""The token embedding on disk while a model answers: the same answers, in less memory."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.app.budget_wish import bytes_of
from ebbtide.engine import messages as m
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.loop import Engine
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.embedding import EmbeddingOnDisk, rows_on_disk
from ebbtide.engine.model.forward import Forward
from ebbtide.engine.model.rope import rope_table_bytes
from ebbtide.engine.room import HostRoom
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import teacher_forced
from ebbtide.engine.weights.direct import DirectFile
from ebbtide.engine.weights.pack_index import block_tensor
from ebbtide.kernels.ops import F32
from tests.helpers.in_process import TEXT, Script, generate, load, of, run
from tests.helpers.tiny_models import Family, write_tiny

SIZES: dict[str, Any] = {"experts": 8, "d_model": 256, "heads": 8, "d_ff": 32, "expert_d_ff": 32, "layers": 3}
K_SIZES: dict[str, Any] = {"d_model": 256, "heads": 8, "d_ff": 256, "expert_d_ff": 256}
MODELS: dict[str, tuple[Family, dict[str, Any]]] = {
    "mixtral": ("mixtral", {**SIZES}),
    "olmoe": ("olmoe", {**SIZES, "quant": "Q4_0"}),
    "qwen2moe": ("qwen2moe", {**SIZES, "quant": "Q5_1"}),
    "qwen3moe": ("qwen3moe", {"quant": "Q4_K", "types": {"token_embd.weight": "Q6_K"}, **K_SIZES}),
    "tables": ("mixtral", {**SIZES, "quant": "IQ4_NL"}),
    "floats": ("olmoe", {**SIZES, "types": {"token_embd.weight": "F16"}}),
}
TOKENS = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def mixtral(folder: Path) -> Path:
    return write_tiny(folder / "mixtral.gguf", "mixtral", **SIZES)


def is_on_disk(runtime: Runtime) -> bool:
    """The plan says so, and the weights are as it says."""
    assert isinstance(runtime.forward, Forward)
    weights, plan = runtime.forward.weights, runtime.plan
    assert isinstance(weights.embedding, EmbeddingOnDisk) == plan.rows_on_disk
    rope = rope_table_bytes(runtime.spec, runtime.ctx)
    assert plan.static_bytes == weights.static_bytes + rope
    assert runtime.memory().static_bytes == plan.static_bytes
    return plan.rows_on_disk


def logits(path: Path, lane: Lane, *, on_disk: bool, **fields: Any) -> F32:
    """f32[TOKENS, vocabulary]; the ledger is checked afterwards."""
    runtime = Runtime.load(load(path, **fields), lambda *_: None)
    assert is_on_disk(runtime) == on_disk
    ids = runtime.tokenizer.encode(TEXT, add_bos=False, parse_special=False)[:TOKENS]
    found: list[F32] = []
    teacher_forced(runtime, ids, lane, lambda: False, lambda _, rows: found.append(rows.copy()))
    runtime.fast.check_integrity()
    runtime.close()
    return np.concatenate(found)


@pytest.mark.parametrize("name", MODELS)
def test_logits_have_the_same_bits(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family, options = MODELS[name]
    path = write_tiny(folder / f"bits-{name}.gguf", family, **options)
    for lane in (Lane.PREFILL, Lane.DECODE):
        whole = logits(path, lane, on_disk=False)
        assert (logits(path, lane, on_disk=True, budget="0%") == whole).all()
        with monkeypatch.context() as as_ever:
            as_ever.setattr(HostRoom, "reads_rows", False)
            assert (logits(path, lane, on_disk=False, budget="0%") == whole).all()


@pytest.mark.parametrize("width", [1, 3, 7])
def test_at_every_width_too(mixtral: Path, width: int) -> None:
    for lane in (Lane.PREFILL, Lane.DECODE):
        whole = logits(mixtral, lane, on_disk=False, width=width)
        assert (logits(mixtral, lane, on_disk=True, width=width, budget="0%") == whole).all()


def test_answers_are_the_same_with_and_without_a_pack(mixtral: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(mixtral.read_bytes())
    whole = of(run(load(path, pack="no"), generate()), m.Finished)[0]
    (loaded,) = of(run(load(path, pack="no")), m.Loaded)
    less = str(loaded.pack_below_bytes)
    assert loaded.pack_below_bytes < loaded.memory.budget_bytes == bytes_of("100%", loaded)
    runtime = Runtime.load(load(path, budget=less, pack="no"), lambda *_: None)
    assert is_on_disk(runtime) and runtime.plan.is_whole
    runtime.close()
    assert not (tmp_path / "packs").exists()
    (plain,) = of(run(load(path, budget=less, pack="no"), generate()), m.Finished)
    (failed,) = of(run(load(path, budget=str(loaded.pack_below_bytes - 1), pack="no")), m.Failed)
    assert failed.needs_pack and "100%" not in failed.hint
    (paged,) = of(run(load(path, budget="20%"), generate()), m.Finished)
    assert plain.token_ids == paged.token_ids == whole.token_ids and len(whole.token_ids) == 24
    for finished in (plain, paged):
        assert finished.memory.peak_bytes <= finished.memory.budget_bytes
        assert finished.memory.static_bytes < whole.memory.static_bytes


def test_its_bytes_hold_experts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {**SIZES, "d_model": 1024, "heads": 32}
    path = write_tiny(folder / "broad.gguf", "mixtral", quant="Q4_0", **sizes)
    (loaded,) = of(run(load(path, budget="50%")), m.Loaded)
    held, static = [], []
    for reads_rows in (False, True):
        monkeypatch.setattr(HostRoom, "reads_rows", reads_rows)
        runtime = Runtime.load(load(path, budget=str(loaded.memory.budget_bytes)), lambda *_: None)
        assert is_on_disk(runtime) == reads_rows and runtime.pager is not None
        held.append(sum(runtime.pager.quotas))
        static.append(runtime.memory().static_bytes)
        rows, plan = rows_on_disk(runtime.source), runtime.plan
        runtime.close()
    assert rows is not None and static[0] - static[1] == rows.matrix_bytes
    expert_bytes = plan.expert_bytes // (sizes["experts"] * sizes["layers"])
    more = (rows.matrix_bytes - rows.scratch_bytes - plan.page_bytes) // expert_bytes
    assert more >= 1 and held[1] - held[0] >= more


def test_a_tied_embedding_stays_in_memory(folder: Path) -> None:
    path = write_tiny(folder / "tied.gguf", "mixtral", tied=True, **SIZES)
    for budget in ("100%", "20%"):
        runtime = Runtime.load(load(path, budget=budget), lambda *_: None)
        assert not is_on_disk(runtime) and runtime.plan.ample_bytes == 0
        runtime.close()


def test_budgets_are_foreseen(mixtral: Path) -> None:
    seen = [of(run(load(mixtral, budget=wish)), m.Loaded)[0] for wish in ("100%", "30%", "0%")]
    for loaded in seen:
        for wish, other in zip(("100%", "30%", "0%"), seen, strict=True):
            assert bytes_of(wish, loaded) == other.memory.budget_bytes


def failing(at: tuple[int, int]) -> Callable[[DirectFile, int, int], Any]:
    """Reads of the pack that touch these bytes fail as a bad disk's do."""
    plain = DirectFile._read_once

    def read(self: DirectFile, views: list[memoryview], offset: int) -> int:
        if offset < at[1] and offset + sum(map(len, views)) > at[0]:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(self, views, offset)

    return read  # type: ignore[return-value]


def pack_of(path: Path) -> Path:
    (pack,) = (path.parent / "packs").glob(f"{path.stem}-*")
    return pack


def test_a_read_that_fails_fails_the_request_and_the_next_one_works(
    tmp_path: Path, mixtral: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(mixtral.read_bytes())
    good = of(run(load(path, budget="20%"), generate()), m.Finished)[0]
    block = open_gguf(pack_of(path)).tensors[block_tensor("embedding")]
    bad = failing((block.offset, block.offset + block.nbytes))
    events: list[m.Event] = []

    def emit(event: m.Event) -> None:
        events.append(event)
        if isinstance(event, m.Loaded):
            monkeypatch.setattr(DirectFile, "_read_once", bad)
        if isinstance(event, m.Failed):
            monkeypatch.undo()

    Engine(emit, Script(load(path, budget="20%"), generate(1), generate(2))).run()
    (failed,), (finished,) = of(events, m.Failed), of(events, m.Finished)
    assert (failed.request_id, failed.exit_code, finished.request_id) == (1, 3, 2)
    assert "cannot be read: Input/output error" in failed.message and "disk" in failed.hint
    assert finished.token_ids == good.token_ids


@pytest.mark.parametrize("inside", [0, 0.5, -1])
def test_a_damaged_row_is_found_before_it_is_used(tmp_path: Path, mixtral: Path, inside: float) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(mixtral.read_bytes())
    good = of(run(load(path, budget="20%"), generate()), m.Finished)[0]
    pack = pack_of(path)
    block = open_gguf(pack).tensors[block_tensor("embedding")]
    data = bytearray(pack.read_bytes())
    data[block.offset + int(inside * block.nbytes) % block.nbytes] ^= 1
    pack.write_bytes(data)
    events = run(load(path, budget="20%"), generate())
    failed = of(events, m.Failed)[0]
    assert not of(events, m.Loaded) and failed.request_id == 0 and failed.exit_code == 3
    assert "the block embedding is not what was written" in failed.message and not pack.exists()
    assert of(run(load(path, budget="20%"), generate()), m.Finished)[0].token_ids == good.token_ids
