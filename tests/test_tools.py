"""The tools that notes and the README name run as scripts, from any folder."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TOOLS = [
    path
    for folder in ("tools", "oracle", "gpu")
    for path in sorted((TESTS / folder).glob("*.py"))
    if 'if __name__ == "__main__":' in path.read_text("utf-8")
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda path: path.stem)
def test_a_tool_explains_itself(tool: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(tool), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
