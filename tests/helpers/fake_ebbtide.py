"""The whole program with the scripted engine instead of the real one: SCRIPT_JSON ARGUMENTS..."""

import sys

import msgspec

from ebbtide.app.cli import main
from ebbtide.app.context import AppContext
from tests.helpers.fake_engine import Script, command_line

if __name__ == "__main__":
    script = msgspec.json.decode(sys.argv[1].encode(), type=Script)
    sys.exit(main(sys.argv[2:], AppContext(engine_command=command_line(script))))
