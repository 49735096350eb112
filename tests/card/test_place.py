"""`--device` from the wish to a place: what is asked of the driver, what is said, what is refused."""

from pathlib import Path

import pytest
import torch

from ebbtide.engine import messages as m
from ebbtide.engine.device import place
from ebbtide.engine.device.choice import Unusable, choose_device
from ebbtide.engine.device.driver import Card, CudaDriver, DriverError
from ebbtide.engine.device.emulate import parse_emulation
from ebbtide.engine.errors import FitError
from tests.card.test_end_to_end import SIZES
from tests.helpers.fake_cuda import GIB, FakeCard, FakeCuda
from tests.helpers.host_card import HostSide
from tests.helpers.in_process import load, of, run
from tests.helpers.tiny_models import write_tiny

SMALL = FakeCard("RTX 2080", "11111111-2222-3333-4444-555555555555", (7, 5), 8 * GIB)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """Two cards whose kernels work."""
    found = FakeCuda([SMALL, FakeCard()])
    monkeypatch.setattr(place, "CudaDriver", lambda: CudaDriver(found.opener()))
    monkeypatch.setattr(choose_device, "__defaults__", (lambda: CudaDriver(found.opener()),))
    monkeypatch.setattr(place, "_probe", lambda card: None)
    monkeypatch.setattr("ebbtide.engine.device.torch_side.CudaSide", lambda index: HostSide(found.queues))
    return found


def test_the_largest_card_that_works_is_opened(library: FakeCuda) -> None:
    found, notice = place.find_place("auto")
    assert found is not None and (found.card.index, notice) == (1, "") and library.current == 1
    assert found.own_bytes() is None and found.overhead_bytes == 0
    address = found.lanes.allocate(1 << 20)
    found.tensors.empty((10,), torch.float32)
    assert {card for card, _ in library.blocks.values()} == {1} and address in library.blocks
    found.close()
    assert library.blocks == {} and library.pinned == {}


def test_a_card_by_number(library: FakeCuda) -> None:
    found, _ = place.find_place("cuda:0")
    assert found is not None and found.card.name == "RTX 2080" and library.current == 0
    found.close()


def test_the_processor_asks_nobody(library: FakeCuda) -> None:
    assert place.find_place("cpu") == (None, "") and library.calls == []


def test_why_a_card_was_passed_over_stays_with_the_one_that_is_used(
    library: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(card: Card) -> None:
        if card.index == 1:
            raise Unusable("a test kernel gave wrong numbers")

    monkeypatch.setattr(place, "_probe", probe)
    found, _ = place.find_place("auto")
    assert found is not None and found.card.index == 0
    assert found.notice.startswith("cuda:1 is not used: a test kernel gave wrong numbers.")
    found.close()


def test_free_memory_that_nobody_knows_is_no_number(library: FakeCuda) -> None:
    library.refusals["cuMemGetInfo_v2"] = 999
    with pytest.raises(FitError, match="Nobody says how much memory of GeForce RTX 3060 is free"):
        place.find_place("auto")


def test_without_a_driver_the_engine_takes_the_processor_or_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> CudaDriver:
        raise DriverError("there is no NVIDIA driver (libcuda.so.1)")

    monkeypatch.setattr(choose_device, "__defaults__", (missing,))
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES)
    (loaded,) = of(run(load(path, pack="no")), m.Loaded)
    assert loaded.threads == 2 and not any("card" in notice for notice in loaded.notices)
    (failed,) = of(run(load(path, pack="no", device="cuda:0")), m.Failed)
    assert failed.exit_code == 2 and "no NVIDIA driver" in failed.message and "--device cpu" in failed.hint
    (failed,) = of(run(load(path, pack="no", device="gpu")), m.Failed)
    assert failed.exit_code == 2 and "gpu is not a device" in failed.message


def test_an_emulated_card_is_smaller_and_says_so(library: FakeCuda) -> None:
    whole, _ = place.find_place("cuda:1")
    assert whole is not None and whole.room_bytes == 11 * GIB - 12 * GIB // 16
    found = place.emulated(whole, parse_emulation("vram=6GiB,pcie=1GB/s"))
    assert found.notice.startswith("Emulated: 6.44")
    # 12 GiB of which 1 is taken, as if 6 more were; less a sixteenth of what it is said to have.
    assert found.room_bytes == 5 * GIB - 6 * GIB // 16
    real, seen = whole.memory_now(), found.memory_now()
    assert (real.total_bytes, seen.total_bytes) == (12 * GIB, 6 * GIB)
    assert real.free_bytes is not None and seen.free_bytes == real.free_bytes - 6 * GIB
    assert isinstance(found.side, HostSide)
    found.lanes.upload(found.lanes.pinned(64), found.lanes.device(64), 64)
    found.lanes.copied().wait()
    assert found.side.paused_ns == 64
    found.close()


def test_emulating_needs_a_card(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES)
    (failed,) = of(run(load(path, pack="no", device="cpu", emulate="vram=8GB")), m.Failed)
    assert failed.exit_code == 2 and "is for cards, and none is used" in failed.message
    (failed,) = of(run(load(path, pack="no", device="cpu", emulate="ram=8GB")), m.Failed)
    assert failed.exit_code == 2 and "cannot be read" in failed.message
