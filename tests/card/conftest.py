"""A machine with a card, in this process: Triton's interpreter, a driver in Python."""

import pytest

from tests.helpers.triton_interpreter import IS_MISSING

if IS_MISSING:
    collect_ignore_glob = ["test_*.py"]  # tests/kernels/triton/test_platform.py says so
else:
    from tests.helpers.host_card import HostCard

    @pytest.fixture
    def card(monkeypatch: pytest.MonkeyPatch) -> HostCard:
        """The only card; a model is loaded onto it unless it asks for the processor."""
        found = HostCard()
        monkeypatch.setattr("ebbtide.engine.runtime.find_place", found.find)
        return found
