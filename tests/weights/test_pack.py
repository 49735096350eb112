"""Making packs: interruption and resumption, full disks, changing sources, damage."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ebbtide.engine.errors import FitError, ModelError, UsageError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.gguf.remedy import PACK_KEY
from ebbtide.engine.weights import pack_write
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_index import pack_path_for
from ebbtide.engine.weights.pack_part import PartFile
from ebbtide.engine.weights.pack_plan import plan_pack
from ebbtide.engine.weights.pack_source import is_pack, open_pack
from ebbtide.engine.weights.pack_write import write_pack
from tests.helpers.tiny_models import write_tiny

PAGE = 4096


class Stopped(BaseException):
    """Not an Exception: as abrupt as Ctrl+C."""


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many, and not waiting for the disk: a killed process loses nothing that it has written."""
    monkeypatch.setattr(pack_write, "_FLUSH_BYTES", 20_000)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    types = {"blk.1.ffn_down_exps.*": "F16"}
    path = tmp_path_factory.mktemp("original") / "model.gguf"
    return write_tiny(path, "mixtral", quant="Q4_1", types=types, experts=6)


@pytest.fixture(scope="module")
def whole_path(original: Path) -> Path:
    return write_pack(original, original.with_name("whole.gguf"), page_bytes=PAGE)


@pytest.fixture
def whole(whole_path: Path) -> bytes:
    """The pack of `model`, made without an interruption."""
    return whole_path.read_bytes()


@pytest.fixture
def model(tmp_path: Path, original: Path) -> Path:
    """A copy to do as one likes with, the same also in its time stamp."""
    return Path(shutil.copy2(original, tmp_path / "model.gguf"))


def leftovers(out: Path) -> list[str]:
    return sorted(p.name for p in out.parent.glob(out.name + ".*"))


def units(model: Path) -> int:
    return len(plan_pack(GgufSource(open_gguf(model), page_bytes=PAGE)).units)


def finish(model: Path, out: Path, *, resume: bool = True) -> int:
    """Pack to the end; the bytes that were already done."""
    done: list[int] = []
    write_pack(model, out, page_bytes=PAGE, resume=resume, progress=lambda at, total: done.append(at))
    return done[0]


def stop_after(count: int) -> pack_write.Progress:
    calls = 0

    def progress(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls > count:
            raise Stopped

    return progress


def test_progress_ends_at_the_total_and_nothing_is_left(model: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    out = tmp_path / "deep" / "p.gguf"
    write_pack(model, out, page_bytes=PAGE, progress=lambda *at: seen.append(at))
    assert seen[0][0] == 0 and seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen) and len(seen) == units(model) + 1
    assert leftovers(out) == []
    assert is_pack(open_gguf(out)) and not is_pack(open_gguf(model))


def test_interrupted_anywhere_it_ends_with_the_same_bytes(model: Path, tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "p.gguf"
    for stop in range(0, units(model) + 1, 6):
        with pytest.raises(Stopped):
            write_pack(model, out, page_bytes=PAGE, progress=stop_after(stop))
        assert not out.exists()
        assert finish(model, out) > 0 or stop < 2, "the work done before was not taken up"
        assert out.read_bytes() == whole
        assert leftovers(out) == []
        out.unlink()


def test_interrupted_again_and_again_it_still_ends_well(model: Path, tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "p.gguf"
    for _ in range(units(model)):
        try:
            write_pack(model, out, page_bytes=PAGE, progress=stop_after(4))
        except Stopped:
            continue
        break
    assert out.read_bytes() == whole


KILLED = """
import os, signal, sys
from pathlib import Path
from ebbtide.engine.weights import pack_write
pack_write._FLUSH_BYTES = 20_000
left = int(sys.argv[3])
pwrite = os.pwrite
def dying(fd, data, offset):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return pwrite(fd, data, offset)
os.pwrite = dying
pack_write.write_pack(Path(sys.argv[1]), Path(sys.argv[2]), page_bytes=4096)
"""


@pytest.mark.parametrize("writes", [0, 1, 40, 150, 220])
def test_killed_anywhere_it_ends_with_the_same_bytes(
    model: Path, tmp_path: Path, whole: bytes, writes: int
) -> None:
    out = tmp_path / "p.gguf"
    done = subprocess.run([sys.executable, "-c", KILLED, str(model), str(out), str(writes)], check=False)
    assert done.returncode == -signal.SIGKILL and not out.exists()
    write_pack(model, out, page_bytes=PAGE)
    assert out.read_bytes() == whole


def test_a_part_of_other_settings_or_of_a_changed_model_is_not_taken_up(
    model: Path, tmp_path: Path, whole: bytes
) -> None:
    out = tmp_path / "p.gguf"
    with pytest.raises(Stopped):
        write_pack(model, out, page_bytes=2 * PAGE, progress=stop_after(20))
    write_pack(model, out, page_bytes=PAGE)
    assert out.read_bytes() == whole
    with pytest.raises(Stopped):
        write_pack(model, out, page_bytes=PAGE, progress=stop_after(20))
    model.touch()
    assert finish(model, out) == 0 and open_pack(out).matches(open_gguf(model))


def test_resume_can_be_declined(model: Path, tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "p.gguf"
    with pytest.raises(Stopped):
        write_pack(model, out, page_bytes=PAGE, progress=stop_after(20))
    assert finish(model, out, resume=False) == 0 and out.read_bytes() == whole


@pytest.mark.parametrize("journal", [b"", b"{", b"[]", b'{"header": "x", "done": 3, "losses": {}}'])
def test_a_damaged_journal_only_costs_time(model: Path, tmp_path: Path, whole: bytes, journal: bytes) -> None:
    out = tmp_path / "p.gguf"
    with pytest.raises(Stopped):
        write_pack(model, out, page_bytes=PAGE, progress=stop_after(20))
    (tmp_path / "p.gguf.part.json").write_bytes(journal)
    write_pack(model, out, page_bytes=PAGE)
    assert out.read_bytes() == whole


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_disk_too_small_is_refused_with_numbers(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 40, 0, 5 << 20))
    with pytest.raises(FitError, match=r"needs [\d.]+ MiB more in .*, which has 5.0 MiB free") as caught:
        write_pack(model, tmp_path / "p.gguf", page_bytes=PAGE)
    assert "--out" in caught.value.hint and caught.value.exit_code == 4
    assert not (tmp_path / "p.gguf").exists() and leftovers(tmp_path / "p.gguf") == []


def test_a_file_system_that_keeps_no_count_of_its_room_is_tried(
    model: Path, tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(0, 0, 0))
    write_pack(model, tmp_path / "p.gguf", page_bytes=PAGE)
    assert (tmp_path / "p.gguf").read_bytes() == whole


def test_a_disk_that_becomes_full_leaves_no_pack_and_loses_no_work(
    model: Path, tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, pwrite, left = tmp_path / "p.gguf", os.pwrite, 200

    def full(fd: int, data: memoryview, offset: int) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(fd, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(FitError, match="became full"):
            write_pack(model, out, page_bytes=PAGE)
    assert not out.exists()
    assert finish(model, out) > 0 and out.read_bytes() == whole


def test_short_writes_are_continued(
    model: Path, tmp_path: Path, whole: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:999], offset))
    assert write_pack(model, tmp_path / "p.gguf", page_bytes=PAGE).read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="cannot be written"):
        write_pack(model, tmp_path / "file" / "p.gguf", page_bytes=PAGE)


def test_a_model_that_changes_meanwhile_gives_no_pack(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "p.gguf"

    def touch(done: int, total: int) -> None:
        os.utime(model, ns=(1, 1))

    with pytest.raises(ModelError, match="changed while it was being packed"):
        write_pack(model, out, page_bytes=PAGE, progress=touch)
    assert not out.exists() and leftovers(out) == []


def test_two_packers_do_not_write_the_same_pack(model: Path, tmp_path: Path, whole: bytes) -> None:
    out = tmp_path / "p.gguf"
    plan = plan_pack(GgufSource(open_gguf(model), page_bytes=PAGE))
    with PartFile(out, plan, resume=True), pytest.raises(ModelError, match="Another ebbtide"):
        write_pack(model, out, page_bytes=PAGE)
    write_pack(model, out, page_bytes=PAGE)
    assert out.read_bytes() == whole


def replaced(data: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new) and data.count(old) == 1
    return data.replace(old, new)


def test_damaged_packs_are_refused(tmp_path: Path, whole: bytes) -> None:
    at = whole.index(PACK_KEY.encode()) + len(PACK_KEY) + 4
    unreadable = "index is not readable"
    cases = [
        (unreadable, replaced(whole, b'"page_bytes":4096', b'"page_bytes":"x6"')),
        (unreadable, replaced(whole, b'"page_bytes":4096', b'"page_bytes":4097')),
        (unreadable, replaced(whole, b'"embedding":[[275,128,"Q4', b'"embedding":[[275,128,"Q9')),
        (unreadable, replaced(whole, b'"layers":2', b'"layers":3')),
        (r"block.embedding has \d+ bytes", replaced(whole, b'"embedding":[[275,', b'"embedding":[[295,')),
        ("experts.1.down has 0 bytes", replaced(whole, b"experts.1.down", b"experts.1.dawn")),
        ("version 7", whole[:at] + b"\x07" + whole[at + 1 :]),
        ("cut short", whole[:-5000]),
    ]
    damaged = tmp_path / "damaged.gguf"
    for message, data in cases:
        damaged.write_bytes(data)
        with pytest.raises(ModelError, match=message) as caught:
            open_pack(damaged)
        assert caught.value.hint


@pytest.mark.parametrize("keep", [0, 3, 100, 9000, -5000])
@pytest.mark.parametrize("name", ["own.pack.gguf", "m.gguf"])
def test_a_damaged_pack_is_to_be_made_again(tmp_path: Path, whole: bytes, name: str, keep: int) -> None:
    """By its name, or by its keys if these can still be read."""
    damaged = tmp_path / name
    damaged.write_bytes(whole[:keep])
    with pytest.raises(ModelError) as caught:
        open_gguf(damaged)
    known = name.endswith(".pack.gguf") or keep not in (0, 3, 100)
    assert ("`ebbtide pack" in caught.value.hint) == known
    assert ("Download" in caught.value.hint) != known


def test_pages_that_direct_reads_cannot_fill_are_refused(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pages of 5000 bytes"):
        write_pack(model, tmp_path / "p.gguf", page_bytes=5000)


def test_a_dense_model_can_be_packed(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "dense.gguf", "llama", quant="Q4_0")
    source = open_pack(write_pack(model, tmp_path / "p.gguf", page_bytes=PAGE))
    assert source.spec.dense_ffn and source.has("blk.1.down") and not source.index.experts


def test_a_plain_model_is_not_a_pack(model: Path) -> None:
    with pytest.raises(ModelError, match=PACK_KEY):
        open_pack(model)


def test_every_model_has_its_own_place_for_a_pack(tmp_path: Path) -> None:
    one, two = pack_path_for(Path("a/m.gguf"), tmp_path), pack_path_for(Path("b/m.gguf"), tmp_path)
    assert one != two and one.parent == two.parent == tmp_path / "packs"
    assert one.name.startswith("m-") and one == pack_path_for(Path("a/../a/m.gguf"), tmp_path)


def test_only_a_pack_may_be_replaced(model: Path, tmp_path: Path, whole: bytes) -> None:
    original, other, link = model.read_bytes(), tmp_path / "letter.txt", tmp_path / "link.gguf"
    other.write_text("dear all")
    link.symlink_to(model)
    for out in (model, link, other, tmp_path):
        with pytest.raises(UsageError):
            write_pack(model, out, page_bytes=PAGE)
    assert model.read_bytes() == original and other.read_text() == "dear all"
    assert not list(tmp_path.parent.glob("*.part")) and not list(tmp_path.glob("*.part"))
    older = tmp_path / "older.gguf"
    older.write_bytes(whole)
    write_pack(model, older, page_bytes=PAGE)
    assert older.read_bytes() == whole
