"""Made-up tokens and prompts: they run on every instruction set, and fit into what they are given."""

from collections.abc import Callable

import numpy as np
import pytest

from ebbtide.kernels.cpu import trial
from ebbtide.kernels.cpu.trial import Trial
from ebbtide.kernels.ops import U8
from tests.helpers.attention_kernels import isas


def buffer(mebibytes: float) -> U8:
    return np.zeros(int(mebibytes * (1 << 20)), np.uint8)


@pytest.mark.parametrize("isa", isas())
def test_times_are_times(isa: str) -> None:
    found = Trial(isa, buffer(16), threads=2)
    for threads in (1, 2, 1, 3):
        speed = found.time(threads)
        assert speed.token_s > 0 and speed.prompt_s > 0
    found.close()


def test_a_token_has_to_do_what_fits_into_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def took(seconds: list[float]) -> Callable[[Callable[[], object]], float]:
        return lambda call: seconds.pop(0)

    for product_s, prompt_s, products, prompt_products in (
        (trial.TOKEN_S / 5.5, trial.PROMPT_S / 3.5, 5, 3),
        (1e-9, 1e-9, 7, 7),  # as many as there are
        (60.0, 60.0, 4, 1),  # never none
    ):
        monkeypatch.setattr(trial, "_seconds", took([60.0, product_s, 60.0, prompt_s]))
        found = Trial("portable", buffer(16), threads=1)
        assert (found.products, found.prompt_products) == (products, prompt_products)


def test_weights_that_are_slow_to_make_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "FILL_S", -1.0)
    memory = buffer(64)
    found = Trial("portable", memory, threads=1)
    assert found.time(1).token_s > 0
    assert np.flatnonzero(memory)[-1] < 10 << 20, "four matrices of 2.25 MiB"


def test_too_small_a_buffer_is_refused() -> None:
    with pytest.raises(ValueError, match="do not hold 4 matrices"):
        Trial("portable", buffer(8), threads=1)
