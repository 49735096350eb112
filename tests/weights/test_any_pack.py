"""Packs with any-precision codes: what is in them, resumed, damaged, and never taken for another kind."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from ebbtide.engine.errors import ModelError, UsageError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.gguf.remedy import PACK_KEY
from ebbtide.engine.gguf.tensors import TensorInfo
from ebbtide.engine.model.mapping import KINDS, Kind, Part
from ebbtide.engine.weights import pack_write
from ebbtide.engine.weights.any_precision_block import any_precision_block, books_notice
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.codes import F32
from ebbtide.engine.weights.convert import Losses, put_into
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.nested_parts import F64
from ebbtide.engine.weights.open import open_weights
from ebbtide.engine.weights.pack_index import pack_path_for
from ebbtide.engine.weights.pack_source import PackSource, open_pack
from ebbtide.engine.weights.pack_verify import verify_pack
from ebbtide.engine.weights.pack_write import write_pack
from ebbtide.engine.weights.planes import dequantise
from ebbtide.kernels.layout import FORMATS, OWN_FORMATS, MatrixShape, block_layout
from ebbtide.kernels.ops import contiguous_table
from ebbtide.kernels.reference.planes import load_view
from tests.helpers.paged import read_block
from tests.helpers.tiny_models import write_tiny

PAGE = 4096
LAYERS, EXPERTS, D, D_FF = 2, 3, 128, 96


class Stopped(BaseException):
    """Not an Exception: as abrupt as Ctrl+C."""


@dataclass(frozen=True)
class Moments:
    gate_up: F32
    down: F32


def moments(seed: int = 6) -> Moments:
    rng = np.random.default_rng(seed)
    return Moments(*(rng.gamma(0.5, size=(LAYERS, EXPERTS, n)).astype(np.float32) for n in (D, D_FF)))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gate and up differ in how many planes they have, and down are floats."""
    types = {"*.ffn_gate_exps.*": "Q4_1", "*.ffn_down_exps.*": "F16"}
    path = tmp_path_factory.mktemp("model") / "model.gguf"
    return write_tiny(
        path, "mixtral", types=types, layers=LAYERS, experts=EXPERTS, d_model=D, expert_d_ff=D_FF
    )


WISHES = {"alone": BookWish(), "weighed": BookWish(moments()), "narrow": BookWish(moments(), planes=3)}


@pytest.fixture(scope="module")
def packs(model: Path) -> dict[str, Path]:
    return {
        name: write_pack(model, model.with_name(f"{name}.any.pack.gguf"), page_bytes=PAGE, books=wish)
        for name, wish in WISHES.items()
    }


@pytest.fixture(scope="module")
def exact(model: Path) -> Path:
    return write_pack(model, model.with_name("model.pack.gguf"), page_bytes=PAGE)


def in_the_file(source: GgufSource, layer: int, kind: Kind, expert: int) -> list[F32]:
    """The weights of a block as the file has them."""
    if kind == "down":
        (part,) = source.map.experts[layer, kind][expert]
        start, size = part.tensor.offset + 2 * part.first_row * part.cols, 2 * part.rows * part.cols
        raw = source.reader.read(start, size).view(np.float16)
        return [raw.reshape(part.rows, part.cols).astype(np.float32)]
    block, _ = read_block(source, layer, expert, kind)
    return [dequantise(block, view) for view in source.expert_layout(layer, kind).views]


def errors_of(
    pack: PackSource, source: GgufSource, layer: int, kind: Kind, expert: int, e: F64
) -> list[float]:
    """The definition, over what kernels see at each width."""
    layout = pack.expert_layout(layer, kind)
    block, _ = read_block(pack, layer, expert, kind)
    table = contiguous_table(layout, block)
    wanted = in_the_file(source, layer, kind, expert)
    found = [sum(float((np.square(one.astype(np.float64)) @ e).sum()) for one in wanted)]
    for width in range(1, 9):
        table.widths[0] = min(width, layout.planes)
        kept = [load_view(table, 0, at).dense(torch.float64).numpy() for at in range(len(wanted))]
        lost = [np.square(one - near) @ e for one, near in zip(wanted, kept, strict=True)]
        found.append(sum(float(each.sum()) for each in lost))
    return found


@pytest.mark.parametrize("name", WISHES)
def test_errors_are_those_of_what_kernels_see(name: str, model: Path, packs: dict[str, Path]) -> None:
    source, pack, wish = GgufSource(open_gguf(model), page_bytes=PAGE), open_pack(packs[name]), WISHES[name]
    errors = pack.book_errors()
    assert errors.shape == (LAYERS, 2, EXPERTS, 9) and (np.diff(errors) <= 0).all()
    for layer, kind, expert in ((0, KINDS[0], 0), (1, KINDS[0], 2), (0, KINDS[1], 1), (1, KINDS[1], 2)):
        weighed = wish.moments_of(layer, kind, expert)
        e = np.ones(pack.expert_layout(layer, kind).cols) if weighed is None else weighed.astype(np.float64)
        wanted = errors_of(pack, source, layer, kind, expert, e)
        np.testing.assert_allclose(errors[layer, KINDS.index(kind), expert], wanted, rtol=0.02)
    planes = {view.shape.format.name for kind in KINDS for view in pack.expert_layout(0, kind).views}
    assert planes == ({"AP3"} if name == "narrow" else {"AP4", "AP6"})
    source.close()
    pack.close()


def test_what_is_no_expert_is_as_in_any_pack(packs: dict[str, Path], exact: Path) -> None:
    one, other = open_pack(packs["weighed"]), open_pack(exact)
    assert one.index.dense == other.index.dense and one.index.source == other.index.source
    for name in one.index.vectors:
        np.testing.assert_array_equal(one.vector(name), other.vector(name))
    for name in one.index.dense:
        blocks = [np.zeros(source.dense_layout(name).span_bytes, np.uint8) for source in (one, other)]
        one.read_dense(name, blocks[0])
        other.read_dense(name, blocks[1])
        np.testing.assert_array_equal(blocks[0], blocks[1])
    one.close()
    other.close()


def test_it_says_what_it_is(packs: dict[str, Path], exact: Path) -> None:
    kinds = {name: open_pack(path) for name, path in packs.items()} | {"exact": open_pack(exact)}
    books = {name: pack.index.books for name, pack in kinds.items()}
    assert books["exact"] is None and books["alone"] is not None and books["weighed"] is not None
    assert books["alone"].moments_sha256 == "" and len(books["weighed"].moments_sha256) == 64
    assert (books["weighed"].planes, books["weighed"].seed_width) == (6, 3)
    notices = {name: pack.notices[0] for name, pack in kinds.items()}
    assert "any-precision codes" in notices["weighed"] and "model.gguf" in notices["weighed"]
    assert "dB" in notices["weighed"] and "any-precision" not in notices["exact"]
    for pack in kinds.values():
        pack.close()


def test_moments_lower_the_errors_that_they_weigh(packs: dict[str, Path], model: Path) -> None:
    source = GgufSource(open_gguf(model), page_bytes=PAGE)
    alone, weighed = open_pack(packs["alone"]), open_pack(packs["weighed"])
    row = WISHES["weighed"].moments_of(0, "down", 1)
    assert row is not None
    found = errors_of(alone, source, 0, "down", 1, row.astype(np.float64))
    assert (weighed.book_errors()[0, 1, 1, 3:7] < np.array(found)[3:7]).all()
    for one in (source, alone, weighed):
        one.close()


def test_codes_that_hold_all_of_the_weights_say_so() -> None:
    rng = np.random.default_rng(0)
    weights = (rng.integers(-1, 2, (32, 64)) * (127 / 1024)).astype(np.float32)
    part = Part(TensorInfo("w", (32, 64), "F32", 0, weights.nbytes), 0, 32, 64)
    layout = block_layout([MatrixShape(32, 64, OWN_FORMATS["AP6"])], page_bytes=0, floor_planes=1)
    raw = weights.view(np.uint8).reshape(-1)
    for changed, words in ((0.0, "exactly the weights"), (0.001, "lose something against")):
        weights[3, 5] += changed
        losses, block = Losses(), np.zeros(layout.span_bytes, np.uint8)
        errors = any_precision_block(
            lambda at, size: raw[at : at + size], (part,), layout, put_into(block), losses, None, seed_width=3
        )
        assert words in books_notice("m.gguf", losses)
        assert changed or not errors[2:].any(), "two bits tell three values apart"


def test_interrupted_anywhere_it_ends_with_the_same_bytes(
    model: Path, packs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_write, "_FLUSH_BYTES", 20_000)
    out, calls, done = tmp_path / "p.any.pack.gguf", 0, [0]

    def stopping(at: int, total: int) -> None:
        nonlocal calls
        calls += 1
        done.append(at)
        if calls % 7 == 0:
            raise Stopped

    while not out.exists():
        try:
            write_pack(model, out, page_bytes=PAGE, books=WISHES["weighed"], progress=stopping)
        except Stopped:
            assert not out.exists()
    assert out.read_bytes() == packs["weighed"].read_bytes() and list(tmp_path.iterdir()) == [out]
    assert calls > 14, "it was interrupted"


def test_a_part_of_another_calibration_is_not_taken_up(
    model: Path, packs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pack_write, "_FLUSH_BYTES", 20_000)
    out = tmp_path / "p.any.pack.gguf"

    def stop(at: int, total: int) -> None:
        if at > total // 2:
            raise Stopped

    with pytest.raises(Stopped):
        write_pack(model, out, page_bytes=PAGE, books=BookWish(moments(7)), progress=stop)
    seen: list[int] = []
    write_pack(model, out, page_bytes=PAGE, books=WISHES["weighed"], progress=lambda at, _: seen.append(at))
    assert seen[0] == 0 and out.read_bytes() == packs["weighed"].read_bytes()


def test_damage_is_found(packs: dict[str, Path], tmp_path: Path) -> None:
    whole = packs["weighed"].read_bytes()
    assert verify_pack(packs["weighed"], lambda done, total: None)
    pack = open_pack(packs["weighed"])
    errors = pack.file.tensors["books.errors"].offset
    block = pack.file.tensors["experts.1.down"].offset
    pack.close()
    damaged = tmp_path / "damaged.any.pack.gguf"
    for at, what in ((errors + 5, "table of errors"), (block + 3, "expert 0 of layer 1")):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(ModelError, match=what):
            verify_pack(damaged, lambda done, total: None)


def test_versions_are_told_apart(packs: dict[str, Path], exact: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.gguf"
    for path, version, words, hint in (
        (packs["alone"], 3, "", ""),
        (packs["alone"], 2, "index is not readable", "`ebbtide pack"),
        (exact, 3, "index is not readable", "`ebbtide pack"),
        (packs["alone"], 4, "version 4; this ebbtide reads versions 2 and 3", "Update ebbtide, or remove"),
        (exact, 1, "version 1; this ebbtide reads versions 2 and 3", "Remove the pack and make it again"),
    ):
        whole = path.read_bytes()
        at = whole.index(PACK_KEY.encode()) + len(PACK_KEY) + 4
        changed.write_bytes(whole[:at] + bytes([version]) + whole[at + 1 :])
        if not words:
            open_pack(changed).close()
            continue
        with pytest.raises(ModelError, match=words) as caught:
            open_pack(changed)
        assert hint in caught.value.hint


def test_neither_kind_takes_the_place_of_the_other(
    model: Path, packs: dict[str, Path], exact: Path, tmp_path: Path
) -> None:
    assert pack_path_for(model, tmp_path) != pack_path_for(model, tmp_path, books=True)
    for there, books, words in (
        (exact, WISHES["alone"], "the model's own codes"),
        (packs["alone"], None, "any-precision codes"),
    ):
        place = Path(shutil.copy2(there, tmp_path / "place.pack.gguf"))
        with pytest.raises(UsageError, match=words) as caught:
            write_pack(model, place, page_bytes=PAGE, books=books)
        assert "--out" in caught.value.hint and place.read_bytes() == there.read_bytes()
    again = Path(shutil.copy2(packs["alone"], tmp_path / "again.pack.gguf"))
    write_pack(model, again, page_bytes=PAGE, books=WISHES["weighed"])
    assert again.read_bytes() == packs["weighed"].read_bytes()


def test_a_dense_model_has_no_books(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "dense.gguf", "llama")
    with pytest.raises(ValueError, match="experts"):
        write_pack(model, tmp_path / "p.gguf", page_bytes=PAGE, books=BookWish())
    assert open_weights(model).spec.dense_ffn and not (tmp_path / "p.gguf").exists()


def test_tables_cost_the_same_for_short_rows_as_for_long_ones() -> None:
    for cols in (32, 4096):
        part = Part(TensorInfo("w", (48, cols), "Q8_0", 0, 0), 0, 48, cols)
        (shape,) = BookWish().shapes((part,))
        affine = MatrixShape(48, cols, FORMATS["Q8_0"])
        assert shape.meta_bytes - affine.meta_bytes == 128 and shape.plane_bytes == affine.plane_bytes
