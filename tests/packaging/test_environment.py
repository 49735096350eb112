"""The frame that `tests/conftest.py` puts around every test."""

import os
import socket
from pathlib import Path

import pytest


def test_a_foreign_host_is_refused_before_anything_is_sent() -> None:
    with socket.socket() as client, pytest.raises(OSError, match=r"tried to reach 192\.0\.2\.1"):
        client.connect(("192.0.2.1", 80))  # an address reserved for documentation


def test_this_machine_can_be_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        client.connect(server.getsockname())


def test_home_is_the_tests_own(own_home: Path, tmp_path: Path) -> None:
    assert Path(os.environ["EBBTIDE_HOME"]) == own_home
    assert own_home.is_relative_to(tmp_path)
