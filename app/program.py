"""How a person calls this program again, as it is typed in a shell."""

import shlex
import shutil
import sys
from pathlib import Path

NAME = "ebbtide"
MODULE = "ebbtide.app"
"""`python -m` of it is the same program."""


def program() -> str:
    """`ebbtide` where a shell finds this very program by that name; else the way in which it was started."""
    started = sys.argv[0]
    if _is_same(str(Path(__file__).with_name("__main__.py")), started):
        return f"{shlex.quote(sys.executable)} -m {MODULE}"
    found = shutil.which(NAME)
    is_other = found is None or not _is_same(found, started)
    return shlex.quote(str(Path(started).absolute())) if Path(started).stem == NAME and is_other else NAME


def _is_same(found: str, started: str) -> bool:
    try:
        return Path(found).samefile(started)
    except OSError:
        return False
