"""What `doctor` says of cards: facts, reasons, and nothing made up."""

import importlib.metadata

from ebbtide.engine.device.describe import Cards, describe_cards
from ebbtide.engine.device.driver import CudaDriver
from ebbtide.engine.device.nvml import Nvml
from tests.device.test_card_memory import FakeNvml
from tests.helpers.fake_cuda import GIB, FakeCard, FakeCuda

OLD = FakeCard("GTX 1080 Ti", "33333333-2222-3333-4444-555555555555", (6, 1), 11 * GIB)


def describe(library: FakeCuda, torch: str = "2.13.0", triton: str = "3.9.0") -> Cards:
    versions = {"torch": torch, "triton": triton}

    def version_of(name: str) -> str:
        if not versions[name]:
            raise importlib.metadata.PackageNotFoundError(name)
        return versions[name]

    return describe_cards(lambda: CudaDriver(library.opener()), lambda: Nvml(FakeNvml()), version_of)


def test_each_card_is_listed_without_a_context_on_it() -> None:
    library = FakeCuda([FakeCard(), OLD], version=12040)
    found = describe(library)
    assert (found.cuda, found.problem) == ("12.4", "") and library.current == -1
    first, second = found.cards
    assert (first.index, first.name, first.capability, first.problem) == (0, "GeForce RTX 3060", "8.6", "")
    assert (first.memory_bytes, first.free_bytes, first.uuid) == (12 * GIB, 9 * GIB, FakeCard.uuid)
    assert "compute capability 6.1" in second.problem and second.free_bytes is None


def test_what_the_installation_lacks_is_said() -> None:
    assert "built for the processor only" in describe(FakeCuda(), torch="2.13.0+cpu").cards[0].problem
    assert "triton is not installed" in describe(FakeCuda(), triton="").cards[0].problem


def test_no_driver_is_no_news_and_a_broken_one_is() -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    assert describe_cards(lambda: CudaDriver(missing)) == Cards(None, [], "")
    assert describe(FakeCuda(refusals={"cuInit": 100})) == Cards(None, [], "")
    assert "803" in describe(FakeCuda(refusals={"cuInit": 803})).problem
