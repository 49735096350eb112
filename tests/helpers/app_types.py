"""Types of the fixtures that the app's tests share."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ebbtide.engine.client import EngineClient
from tests.helpers.fake_engine import Script

MakeClient = Callable[[Script], EngineClient]


class Result(NamedTuple):
    """How a command line ended."""

    code: int
    out: str
    err: str


class Cli(Protocol):
    """Runs the program with the scripted engine."""

    def __call__(self, *arguments: str, script: Script = ..., stdin: str = ...) -> Result: ...
