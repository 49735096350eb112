"""Names behind an @ of files that are not there."""

from pathlib import Path

import pytest

from ebbtide.app.files.mentions import missing_files


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see @typo.py, please", ["typo.py"]),
        ("(@src/nothing) and @src/nothing", ["src/nothing"]),
        ('@"my notes.md"?', ["my notes.md"]),
        ("@here.py. And @here.py", []),
        ("thanks @anna, me@example.com", []),
        ('@app.route("/") @pytest.fixture @property', []),
    ],
)
def test_what_looks_like_a_file_and_is_none(tmp_path: Path, text: str, missing: list[str]) -> None:
    (tmp_path / "here.py").write_text("x")
    assert missing_files(text, tmp_path) == missing
