"""Damage anywhere in a pack is noticed when it is read, before a wrong weight is used."""

import mmap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ebbtide.engine.errors import ModelError, UsageError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.weights.checksums import crcs_of, extent_sizes
from ebbtide.engine.weights.pack_index import CHECKSUM_TENSOR, bank_tensor, block_tensor, vector_tensor
from ebbtide.engine.weights.pack_source import PackSource, open_pack
from ebbtide.engine.weights.pack_verify import verify_pack
from ebbtide.engine.weights.pack_write import write_pack
from tests.helpers.paged import read_block
from tests.helpers.tiny_models import write_tiny

PAGE = 4096


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = write_tiny(tmp_path_factory.mktemp("model") / "m.gguf", "mixtral", quant="Q4_1", experts=3)
    return write_pack(model, model.with_name("whole.pack.gguf"), page_bytes=PAGE)


def flipped(whole: Path, out: Path, offset: int) -> Path:
    """A copy with one bit of one byte changed."""
    data = bytearray(whole.read_bytes())
    data[offset] ^= 0x10
    out.write_bytes(data)
    return out


def read_all(source: PackSource) -> None:
    for name in source.index.dense:
        source.read_dense(name, np.empty(source.dense_layout(name).span_bytes, np.uint8))
    for name in source.index.vectors:
        source.vector(name)
    for layer in range(source.spec.layers):
        for expert in range(source.spec.experts):
            read_block(source, layer, expert, "gate_up")
            read_block(source, layer, expert, "down")


def at(whole: Path, tensor: str, inside: int) -> int:
    found = open_gguf(whole).tensors[tensor]
    return found.offset + inside % found.nbytes


PLACES: dict[str, Callable[[Path], int]] = {
    "its header": lambda whole: whole.read_bytes().index(b"<|im_start|>"),
    "the vector blk.1.ffn_norm": lambda whole: at(whole, vector_tensor("blk.1.ffn_norm"), 9),
    "the block embedding": lambda whole: at(whole, block_tensor("embedding"), -1),
    "expert 0 of layer 0 (gate_up)": lambda whole: at(whole, bank_tensor(0, "gate_up"), 0),
    "expert 2 of layer 1 (down)": lambda whole: at(whole, bank_tensor(1, "down"), -1),
}


@pytest.mark.parametrize("what", PLACES)
def test_one_bit_is_noticed(whole: Path, tmp_path: Path, what: str) -> None:
    damaged = flipped(whole, tmp_path / "damaged.pack.gguf", PLACES[what](whole))
    with pytest.raises(ModelError) as caught:
        read_all(open_pack(damaged))
    assert what in str(caught.value) and "`ebbtide pack" in caught.value.hint and damaged.exists()


def test_a_damaged_table_is_noticed(whole: Path, tmp_path: Path) -> None:
    for inside in (0, 5, -3):
        damaged = flipped(whole, tmp_path / "damaged.gguf", at(whole, CHECKSUM_TENSOR, inside))
        with pytest.raises(ModelError, match="is damaged"):
            read_all(open_pack(damaged))


def test_a_whole_pack_is_read_without_complaint(whole: Path) -> None:
    source = open_pack(whole)
    for _ in range(2):
        read_all(source)


def test_every_extent_of_a_block_is_covered_however_it_is_read(whole: Path, tmp_path: Path) -> None:
    source = open_pack(whole)
    sizes = extent_sizes(source.expert_layout(1, "gate_up"))
    bank = source.file.tensors[bank_tensor(1, "gate_up")].offset
    start = bank + sum(sizes)  # expert 1
    assert len(sizes) > 2 and all(size % PAGE == 0 for size in sizes)
    for bad in range(len(sizes)):
        place = start + sum(sizes[:bad]) + sizes[bad] // 2
        source = open_pack(flipped(whole, tmp_path / "damaged.gguf", place))
        for extent, size in enumerate(sizes):
            buffer = np.frombuffer(mmap.mmap(-1, size), np.uint8)
            targets = [(buffer.ctypes.data + page, PAGE) for page in range(0, size, PAGE)]
            if extent == bad:
                with pytest.raises(ModelError, match="expert 1 of layer 1"):
                    source.read_expert(1, 1, "gate_up", extent, extent, targets)
            else:
                source.read_expert(1, 1, "gate_up", extent, extent, targets)


def test_a_block_is_compared_when_it_is_read_first(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(whole.read_bytes())
    source = open_pack(copy)
    read_block(source, 0, 0, "down")
    with copy.open("r+b") as file:
        for expert in (0, 1):
            span = source.expert_layout(0, "down").span_bytes
            file.seek(source.file.tensors[bank_tensor(0, "down")].offset + expert * span)
            file.write(b"damage")
    read_block(source, 0, 0, "down")
    with pytest.raises(ModelError, match="expert 1 of layer 0"):
        read_block(source, 0, 1, "down")


def test_a_block_that_is_read_through_is_compared(whole: Path, tmp_path: Path) -> None:
    for name in (source := open_pack(whole)).index.dense:
        source.check_dense(name)
    for inside in (0, 7000, -1):
        damaged = flipped(whole, tmp_path / "damaged.gguf", at(whole, block_tensor("embedding"), inside))
        with pytest.raises(ModelError, match="the block embedding is not what was written"):
            open_pack(damaged).check_dense("embedding")


def test_a_disposable_pack_is_removed(whole: Path, tmp_path: Path) -> None:
    for what in ("its header", "expert 0 of layer 0 (gate_up)"):
        damaged = flipped(whole, tmp_path / "damaged.pack.gguf", PLACES[what](whole))
        with pytest.raises(ModelError, match="is damaged") as caught:
            read_all(open_pack(damaged, disposable=True))
        assert not damaged.exists() and "load the model again" in caught.value.hint


def test_stretches_across_pieces() -> None:
    data = bytes(range(200))
    pieces = (memoryview(data[i : i + 30]) for i in range(0, 200, 30))
    expected = crcs_of(iter([memoryview(data)]), [1, 59, 140])
    assert crcs_of(pieces, [1, 59, 140]) == expected and len(set(expected)) == 3


def test_a_whole_pack_can_be_verified(whole: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tensors = open_gguf(whole).tensors.values()
    read = verify_pack(whole, lambda *at: seen.append(at))
    assert seen[-1][0] == seen[-1][1] == sum(tensor.nbytes for tensor in tensors) > read > 0
    for what, place in PLACES.items():
        with pytest.raises(ModelError) as caught:
            verify_pack(flipped(whole, tmp_path / "damaged.gguf", place(whole)))
        assert what in str(caught.value)
    with pytest.raises(UsageError, match="not a pack"):
        verify_pack(whole.with_name("m.gguf"))
