"""Triton's interpreter for every test in this folder, and a summary of how far kernels are from the
reference.
"""

from collections import defaultdict
from collections.abc import Callable

import pytest
import torch

from tests.helpers.triton_interpreter import IS_MISSING

if IS_MISSING:
    collect_ignore_glob = ["test_[!p]*.py"]  # all but test_platform.py, which says why

WORST: dict[str, list[float]] = defaultdict(list)
Compare = Callable[..., None]


@pytest.fixture(scope="session")
def compare() -> Compare:
    """compare(op, got, exact, bound): every difference is within its bound, and is remembered for the
    summary.
    """

    def check(op: str, got: torch.Tensor, exact: torch.Tensor, bound: torch.Tensor | float) -> None:
        assert got.shape == exact.shape and torch.isfinite(got).all(), op
        difference = (got.double() - exact.double()).abs()
        WORST[op].append(float(difference.max() / exact.double().abs().max().clamp_min(1e-300)))
        assert (difference <= bound).all(), (op, float((difference / bound).max()))

    return check


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line an operation: cases and the worst difference relative to the largest exact value of a case."""
    for op, errors in sorted(WORST.items()):
        line = f"triton {op}: {len(errors)} cases, worst relative error {max(errors):.2e}"
        terminalreporter.write_line(line)
