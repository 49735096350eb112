"""Where Triton can be installed, its tests run."""

import importlib.util
import platform
import sys

import pytest


@pytest.mark.skipif(
    not (sys.platform == "linux" and platform.machine() == "x86_64")
    and importlib.util.find_spec("triton") is None,
    reason="there is no Triton for this platform: its kernels are not tested here",
)
def test_triton_is_installed() -> None:
    assert importlib.util.find_spec("triton") is not None, "install ebbtide[test]"
