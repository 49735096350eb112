"""The CUDA driver's door, against a library in Python: cards, memory, refusals."""

import pytest

from ebbtide.engine.device.driver import CudaDriver, DriverError
from tests.helpers.fake_cuda import GIB, FakeCard, FakeCuda

OTHER = "11111111-2222-3333-4444-555555555555"


def test_cards_are_described_as_the_driver_numbers_them() -> None:
    library = FakeCuda([FakeCard(), FakeCard("RTX 2080", OTHER, (7, 5), 8 * GIB, integrated=True)])
    first, second = CudaDriver(library.opener()).cards()
    assert (first.index, first.name, first.capability, first.total_bytes) == (
        0,
        "GeForce RTX 3060",
        (8, 6),
        12 * GIB,
    )
    assert first.uuid == FakeCard.uuid and not first.integrated
    assert (second.index, second.uuid, second.capability, second.integrated) == (1, OTHER, (7, 5), True)


def test_the_version_is_major_and_minor() -> None:
    assert CudaDriver(FakeCuda(version=12040).opener()).version == (12, 4)


def test_without_a_driver_it_says_so() -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    with pytest.raises(DriverError, match=r"no NVIDIA driver .*libcuda"):
        CudaDriver(missing)


def test_a_refusal_carries_the_drivers_words_and_code() -> None:
    with pytest.raises(DriverError, match="cuInit: no CUDA-capable device") as caught:
        CudaDriver(FakeCuda(refusals={"cuInit": 100}).opener())
    assert caught.value.code == 100 and not caught.value.out_of_memory


def test_a_slab_given_back_is_free_for_everybody() -> None:
    library = FakeCuda()
    driver = CudaDriver(library.opener())
    driver.use(0)
    free, total = driver.memory()
    assert (free, total) == (11 * GIB, 12 * GIB)
    address = driver.allocate(GIB)
    assert driver.memory()[0] == 10 * GIB
    driver.free(address)
    assert driver.memory()[0] == 11 * GIB
    with pytest.raises(DriverError) as caught:
        driver.allocate(12 * GIB)
    assert caught.value.out_of_memory and library.blocks == {}


def test_pinned_memory_has_a_quota() -> None:
    driver = CudaDriver(FakeCuda(pinned_quota=1 << 20).opener())
    driver.free_pinned(driver.allocate_pinned(1 << 20))
    with pytest.raises(DriverError) as caught:
        driver.allocate_pinned((1 << 20) + 1)
    assert caught.value.out_of_memory
