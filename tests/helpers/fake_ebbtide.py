"""The whole program with the scripted engine instead of the real one: SCRIPT_JSON ARGUMENTS..."""

import sys

import msgspec

from ebbtide.app import session
from ebbtide.app.cli import main
from ebbtide.app.context import AppContext
from tests.helpers.fake_engine import Script, command_line
from tests.helpers.waiting import PATIENCE_S

if __name__ == "__main__":
    session.CANCEL_WAIT_S = PATIENCE_S  # how soon the engine answers is not what is tested
    script = msgspec.json.decode(sys.argv[1].encode(), type=Script)
    sys.exit(main(sys.argv[2:], AppContext(engine_command=command_line(script))))
