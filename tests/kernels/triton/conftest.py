"""Triton's interpreter for every test in this folder, and a summary of how far kernels are from the
reference.
"""

import importlib.util
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported; nothing else in the suite imports it

HAS_WHEEL = sys.platform == "linux" and platform.machine() == "x86_64"
if not HAS_WHEEL and importlib.util.find_spec("triton") is None:
    collect_ignore_glob = ["test_[!p]*.py"]  # all but test_platform.py, which says why

if importlib.util.find_spec("triton") is not None:
    from triton.runtime.interpreter import InterpretedFunction

    call_anew = InterpretedFunction.__call__

    def call_helper(self: Any, *args: Any, **kwargs: Any) -> Any:
        """A function called by a kernel. As it is, the interpreter prepares `tl` anew for every such call,
        which takes three quarters of the time; the kernel's launch has done so already for our own
        functions."""
        ours = self.fn.__module__.startswith("ebbtide.")
        return self.rewrite()(*args, **kwargs) if ours else call_anew(self, *args, **kwargs)

    InterpretedFunction.__call__ = call_helper

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
