"""As `fake_ebbtide`, with a part of the screen that fails when it is drawn."""

import sys

import msgspec
from textual.content import Content

from ebbtide.app.cli import main
from ebbtide.app.context import AppContext
from ebbtide.app.widgets.status_line import StatusLine
from tests.helpers.fake_engine import Script, command_line


class BrokenOnPurpose(Exception):
    """What the test looks for."""


def broken(line: StatusLine) -> Content:
    raise BrokenOnPurpose


if __name__ == "__main__":
    StatusLine.render = broken  # type: ignore[assignment, method-assign]
    script = msgspec.json.decode(sys.argv[1].encode(), type=Script)
    sys.exit(main(sys.argv[2:], AppContext(engine_command=command_line(script))))
