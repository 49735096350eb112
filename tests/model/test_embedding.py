"""Rows of the token embedding that are read when they are needed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.errors import ModelError
from ebbtide.engine.model import embedding
from ebbtide.engine.model.embedding import EmbeddingOnDisk, WholeEmbedding, rows_on_disk, strips_in_memory
from ebbtide.engine.model.weights import load_dense
from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.open import open_weights
from ebbtide.engine.weights.pack_write import write_pack
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.dispatch import pick
from ebbtide.kernels.layout import STRIP_ROWS
from ebbtide.kernels.ops import F32, KernelError, Ops
from tests.helpers.tiny_models import write_tiny

PAGE = 4096
QUANTS = [*("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4"), *("F16", "BF16", "F32")]
QUANTS += ["Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]
ROOM: dict[str, Any] = {"d_model": 256, "heads": 8, "d_ff": 256}


@pytest.fixture(scope="module")
def ops() -> Ops:
    ops = pick("auto", 2)
    ops.set_workspace(np.zeros(8 << 20, np.uint8))
    return ops


def sources(folder: Path, quant: str = "Q4_0", **options: Any) -> list[WeightSource]:
    """The model file and its pack."""
    model = write_tiny(folder / "m.gguf", "mixtral", types={"token_embd.weight": quant}, **options)
    pack = write_pack(model, folder / "m.pack.gguf", page_bytes=PAGE)
    return [open_weights(path, page_bytes=PAGE) for path in (model, pack)]


def rows_of(source: WeightSource, *, on_disk: bool, ops: Ops, ids: list[int]) -> F32:
    weights = load_dense(source.spec, source, lambda done: None, rows_on_disk=on_disk)
    assert isinstance(weights.embedding, EmbeddingOnDisk if on_disk else WholeEmbedding)
    out = np.zeros((len(ids), source.spec.d_model), np.float32)
    weights.embedding.embed(ops, np.array(ids, np.int32), out)
    return out


@pytest.mark.parametrize("quant", QUANTS)
def test_rows_have_the_bits_of_the_whole_matrix(tmp_path: Path, quant: str, ops: Ops) -> None:
    for source in sources(tmp_path, quant, **ROOM):
        vocab = source.spec.vocab
        assert vocab % STRIP_ROWS, "the last strip is padded"
        ids = [*np.random.default_rng(0).integers(0, vocab, 100).tolist(), 0, 0, vocab - 1, 0]
        whole, read = (rows_of(source, on_disk=on_disk, ops=ops, ids=ids) for on_disk in (False, True))
        assert (whole.view(np.uint32) == read.view(np.uint32)).all() and whole.any(axis=1).all()


def test_strips_used_last_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in sources(tmp_path):
        rows = EmbeddingOnDisk(source)
        assert len(rows.table.page_table) == 1 and rows.table.layout.rows == 2 * STRIP_ROWS
        read: list[int] = []
        plain = source.read_strip

        def counted(name: str, strip: int, outs: list[U8], plain: Any = plain, read: Any = read) -> None:
            read.append(strip)
            plain(name, strip, outs)

        monkeypatch.setattr(source, "read_strip", counted)
        for ids, expected in (
            ([40, 3], [0, 2]),
            ([2, 1], []),
            ([100], [6]),  # in place of strip 2
            ([4, 101], []),
            ([33], [2]),
            ([44, 45], []),
            ([96], []),
            ([0, 100], [0]),
        ):
            placed = rows.place(np.array(ids, np.int32))
            assert read == expected and (placed % STRIP_ROWS).tolist() == [i % STRIP_ROWS for i in ids]
            read.clear()


def test_after_a_read_that_failed_rows_are_right_again(
    tmp_path: Path, ops: Ops, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in sources(tmp_path):
        ids = np.array([5, 100], np.int32)
        expected = rows_of(source, on_disk=False, ops=ops, ids=ids.tolist())
        rows, out = EmbeddingOnDisk(source), np.zeros_like(expected)
        rows.embed(ops, np.array([5, 200], np.int32), out)
        plain = source.read_strip

        def spoiled(name: str, strip: int, outs: list[U8]) -> None:
            outs[0][:] = 255
            raise OSError("the disk is gone")

        monkeypatch.setattr(source, "read_strip", spoiled)
        for _ in range(4):
            with pytest.raises(ModelError, match=r"token embedding failed: the disk is gone\."):
                rows.place(np.array([100], np.int32))
        with pytest.raises(ModelError, match="token embedding failed"):
            rows.place(np.array([100, 150], np.int32))
        monkeypatch.setattr(source, "read_strip", plain)
        for _ in range(2):
            rows.embed(ops, ids, out)
            assert (out == expected).all()


def test_an_id_that_is_no_row_is_refused(tmp_path: Path) -> None:
    source = sources(tmp_path)[0]
    rows = EmbeddingOnDisk(source)
    for wrong in (-1, source.spec.vocab):
        with pytest.raises(KernelError, match=f"of {source.spec.vocab}"):
            rows.place(np.array([0, wrong], np.int32))


def test_what_it_saves_and_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in sources(tmp_path):
        rows = rows_on_disk(source)
        assert rows is not None and rows.matrix_bytes == source.dense_layout("embedding").span_bytes
        assert 0 < rows.scratch_bytes <= rows.matrix_bytes / embedding.LEAST_PARTS
        held = EmbeddingOnDisk(source).table
        assert held.layout.span_bytes == rows.scratch_bytes
        static = [
            load_dense(source.spec, source, lambda done: None, rows_on_disk=on_disk).static_bytes
            for on_disk in (False, True)
        ]
        assert static == [source.static_bytes, source.static_bytes - rows.matrix_bytes]
        monkeypatch.setattr(embedding, "LEAST_PARTS", 1000)
        assert strips_in_memory(source.dense_layout("embedding")) is None and rows_on_disk(source) is None
        monkeypatch.undo()


def test_one_that_is_the_head_too_is_needed_whole(tmp_path: Path) -> None:
    for source in sources(tmp_path, tied=True):
        assert rows_on_disk(source) is None


def test_loading_tells_of_all_that_it_reads(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        seen: list[int] = []
        load_dense(source.spec, source, seen.append, rows_on_disk=True)
        assert seen[-1] == source.static_bytes and seen == sorted(seen)
