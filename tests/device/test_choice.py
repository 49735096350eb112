"""Choosing a device: what was asked for, what is there, what works, and what is said about it."""

import pytest

from ebbtide.engine.device.choice import Probe, Unusable, choose_device
from ebbtide.engine.device.driver import Card, CudaDriver
from ebbtide.engine.errors import UsageError
from tests.helpers.fake_cuda import GIB, FakeCard, FakeCuda

SMALL = FakeCard("RTX 2080", "11111111-2222-3333-4444-555555555555", (7, 5), 8 * GIB)
LARGE = FakeCard("RTX 4090", "22222222-2222-3333-4444-555555555555", (8, 9), 24 * GIB)
OLD = FakeCard("GTX 1080 Ti", "33333333-2222-3333-4444-555555555555", (6, 1), 11 * GIB)


def works(card: Card) -> None:
    """The probe of a card on which everything works."""


def fails(card: Card) -> None:
    raise Unusable(f"a test kernel on {card.name} gave wrong numbers")


def choose(wish: str, library: FakeCuda, probe: Probe = works) -> tuple[str, str]:
    """(name of the card or "cpu", notice)"""
    found = choose_device(wish, probe, lambda: CudaDriver(library.opener()))
    return found.card.name if found.card else "cpu", found.notice


def missing(name: str) -> None:
    raise OSError(f"{name}: no such file")


def test_the_largest_usable_card_is_taken_whatever_its_number() -> None:
    for cards in ([SMALL, LARGE], [LARGE, SMALL]):
        assert choose("auto", FakeCuda(cards)) == ("RTX 4090", "")


def test_a_card_is_used_by_the_drivers_number() -> None:
    assert choose("cuda:1", FakeCuda([LARGE, SMALL])) == ("RTX 2080", "")
    assert choose("cuda", FakeCuda([LARGE, SMALL])) == ("RTX 4090", "")


def test_cpu_asks_no_driver() -> None:
    library = FakeCuda()
    assert choose("cpu", library) == ("cpu", "")
    assert library.calls == []


def test_no_driver_or_no_card_is_no_news_unless_one_was_asked_for() -> None:
    assert choose_device("auto", works, lambda: CudaDriver(missing)).card is None
    assert choose("auto", FakeCuda(refusals={"cuInit": 100})) == ("cpu", "")
    with pytest.raises(UsageError, match="cuda:0 cannot be used: there is no NVIDIA driver"):
        choose_device("cuda:0", works, lambda: CudaDriver(missing))


def test_a_driver_that_does_not_start_is_said() -> None:
    name, notice = choose("auto", FakeCuda(refusals={"cuInit": 803}))
    assert name == "cpu" and "cuInit" in notice and "803" in notice


def test_an_unsupported_card_is_passed_over_with_the_reason() -> None:
    name, notice = choose("auto", FakeCuda([OLD, SMALL]))
    assert name == "RTX 2080"
    assert "GTX 1080 Ti has compute capability 6.1, and 7.5 or newer is needed" in notice
    assert choose("auto", FakeCuda([OLD]))[0] == "cpu"
    with pytest.raises(UsageError, match=r"compute capability 6\.1") as caught:
        choose("cuda:0", FakeCuda([OLD]))
    assert "--device cpu" in caught.value.hint


def test_an_old_driver_says_what_to_update() -> None:
    name, notice = choose("auto", FakeCuda([LARGE], version=11040))
    assert name == "cpu" and "runs CUDA 11.4 at most, and 12.0 or newer" in notice
    with pytest.raises(UsageError) as caught:
        choose("cuda:0", FakeCuda([LARGE], version=11040))
    assert "Update the NVIDIA driver" in caught.value.hint


def test_a_card_whose_kernel_fails_is_not_used() -> None:
    name, notice = choose("auto", FakeCuda([LARGE]), fails)
    assert name == "cpu" and "wrong numbers" in notice
    with pytest.raises(UsageError, match="wrong numbers"):
        choose("cuda:0", FakeCuda([LARGE]), fails)


def test_a_number_beyond_the_last_card_lists_them() -> None:
    with pytest.raises(UsageError, match=r"no cuda:2; cards here: cuda:0 \(RTX 4090\), cuda:1 \(RTX 2080\)"):
        choose("cuda:2", FakeCuda([LARGE, SMALL]))


@pytest.mark.parametrize("wish", ["gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1000", "", "CPU", "cuda:0 "])
def test_other_words_are_refused(wish: str) -> None:
    with pytest.raises(UsageError, match="not a device"):
        choose(wish, FakeCuda())
