"""Triton's interpreter for every test in this folder, and a summary of how far kernels are from the
reference.
"""

import importlib.util
import os
import platform
import sys
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported; nothing else in the suite imports it

HAS_WHEEL = sys.platform == "linux" and platform.machine() == "x86_64"
if not HAS_WHEEL and importlib.util.find_spec("triton") is None:
    collect_ignore_glob = ["test_[!p]*.py"]  # all but test_platform.py, which says why

if importlib.util.find_spec("triton") is not None:
    import triton.language as tl
    from triton.runtime import interpreter

    patch_language = interpreter._patch_lang
    modules = [SimpleNamespace(__globals__={"language": language}) for language in (tl, tl.core)]

    def patch_once(kernel: Any) -> SimpleNamespace:
        """Patch what kernels see and what the functions that come with Triton see."""
        scopes = [patch_language(module) for module in modules]
        return SimpleNamespace(restore=lambda: [scope.restore() for scope in reversed(scopes)])

    def call_helper(self: Any, *args: Any, **kwargs: Any) -> Any:
        """A function called by a kernel. As it is, the interpreter patches `tl` anew for every such call,
        which takes nearly all of the time; here the launch has done so for all of them."""
        return self.rewrite()(*args, **kwargs)

    interpreter._patch_lang = patch_once
    interpreter.InterpretedFunction.__call__ = call_helper

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
