"""What an engine writes to standard error is kept, wherever its log cannot be."""

from io import BytesIO
from pathlib import Path

import pytest

from ebbtide.engine.stderr_log import StderrLog

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no such device here")
def test_a_full_disk_is_no_error_and_the_lines_are_there() -> None:
    log = StderrLog(BytesIO(b"one\ntwo\n"), FULL)
    assert log.tail() == ("one", "two")
    log.close()


def test_all_of_it_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "engine.log"
    for lines in (b"one\n", b"two\nthree"):
        log = StderrLog(BytesIO(lines), path)
        log.tail()
        log.close()
    assert path.read_bytes() == b"one\ntwo\nthree"
