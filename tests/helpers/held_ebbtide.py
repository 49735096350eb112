"""As `fake_ebbtide`, but Textual is not imported before a file is there: FILE SCRIPT_JSON ARGUMENTS...

With words in the file, the import fails with these.
"""

import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path

import msgspec

from ebbtide.app.cli import main
from ebbtide.app.context import AppContext
from tests.helpers.fake_engine import Script, command_line


class Gate(MetaPathFinder):
    """Finds nothing, but takes its time with Textual."""

    def __init__(self, opened: Path) -> None:
        self._opened = opened

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: object = None) -> None:
        if fullname == "textual":
            while not self._opened.exists():
                time.sleep(0.01)
            if words := self._opened.read_text("utf-8"):
                raise ImportError(words)


if __name__ == "__main__":
    sys.meta_path.insert(0, Gate(Path(sys.argv[1])))
    script = msgspec.json.decode(sys.argv[2].encode(), type=Script)
    sys.exit(main(sys.argv[3:], AppContext(engine_command=command_line(script))))
