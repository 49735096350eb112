"""Which errors mean that a card is full, which that it is lost."""

import pytest

from ebbtide.engine.client import Died, describe_exit
from ebbtide.engine.device.driver import DriverError
from ebbtide.engine.device.faults import card_fault
from ebbtide.engine.errors import CARD_LOST_CODE, FitError, ModelError

# As torch 2.13 and Triton 3.9 word them.
LOST = "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported"
FULL = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 12.00 GiB"


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (DriverError("cuMemAlloc_v2: out of memory", 2), "full"),
        (DriverError("cuEventSynchronize: an illegal memory access was encountered", 700), "lost"),
        (DriverError("there is no NVIDIA driver"), ""),
        (RuntimeError(FULL), "full"),
        (RuntimeError(LOST), "lost"),
        (RuntimeError("Triton Error [CUDA]: out of memory"), "full"),
        (RuntimeError("Triton Error [CUDA]: unspecified launch failure"), "lost"),
        (RuntimeError("dictionary changed size during iteration"), ""),
        (ValueError("CUDA error"), ""),
        (FitError("The card has no 1 MiB left.", hint=""), ""),
    ],
)
def test_what_an_error_means(error: Exception, fault: str) -> None:
    assert card_fault(error) == fault


def test_what_it_was_raised_from_counts() -> None:
    outer = ModelError("Reading failed.", hint="")
    outer.__cause__ = RuntimeError(LOST)
    assert card_fault(outer) == "lost"
    outer.__cause__.__cause__ = outer
    assert card_fault(outer) == "lost", "a circle of causes ends"


def test_the_end_of_an_engine_that_lost_its_card_says_so() -> None:
    assert describe_exit(CARD_LOST_CODE) == "lost the card that it computed on"
    error = Died(CARD_LOST_CODE, describe_exit(CARD_LOST_CODE)).error()
    assert str(error).lower() == "the engine lost the card that it computed on" and error.exit_code == 7
