"""The whole program with the scripted engine and a scripted llama.cpp: BEHAVIOUR ARGUMENTS..."""

import signal
import sys

from ebbtide.app.cli import main
from ebbtide.app.commands import compare
from ebbtide.app.compare import llama_process
from ebbtide.app.context import AppContext
from tests.helpers import fake_llama
from tests.helpers.fake_engine import Script, command_line

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    compare.is_installed = lambda: True
    llama_process.WORKER_COMMAND = (sys.executable, fake_llama.__file__, sys.argv[1])
    sys.exit(main(sys.argv[2:], AppContext(engine_command=command_line(Script()))))
