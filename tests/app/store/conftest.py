"""A store in a file of the test's own, and a way to open it again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.app.store import ChatStore, open_store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "chats" / "chats.db"


@pytest.fixture
def store(file: Path) -> Iterator[ChatStore]:
    with open_store(file) as opened:
        yield opened
