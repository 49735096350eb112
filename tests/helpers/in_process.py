"""An engine in the test's own process: a list of commands in, its events out."""

import queue
from pathlib import Path
from typing import Any

from ebbtide.engine import messages as m
from ebbtide.engine.loop import Engine

TEXT = "def parse(text):\n    return [line.split('=') for line in text.splitlines() if line]\n" * 5


class Script:
    """Commands from a list; `cancel_after` layers of a running request a cancel is seen."""

    def __init__(self, *commands: m.Command, cancel_after: int | None = None) -> None:
        self._commands: list[m.Command] = list(commands)
        self._cancel_after = cancel_after
        self._asked = 0

    def add(self, command: m.Command) -> None:
        """For who watches the events: this command comes next."""
        self._commands.append(command)

    def next(self, *, wait: bool) -> m.Command | None:
        if self._commands:
            return self._commands.pop(0)
        if wait:
            return None
        raise queue.Empty

    def is_cancelled(self, request_id: int) -> bool:
        self._asked += 1
        return self._cancel_after is not None and self._asked > self._cancel_after

    def forget(self, request_id: int) -> None:
        self._cancel_after = None


def run(*commands: m.Command, cancel_after: int | None = None) -> list[m.Event]:
    events: list[m.Event] = []
    Engine(events.append, Script(*commands, cancel_after=cancel_after)).run()
    return events


def of(events: list[m.Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def generate(request_id: int = 1, **fields: Any) -> m.Generate:
    everything: dict[str, Any] = {"text": TEXT, "max_tokens": 24} | fields
    return m.Generate(request_id, **everything)


def load(path: Path, **fields: Any) -> m.Load:
    everything: dict[str, Any] = {"budget": "100%", "ctx": 512, "threads": 2, "pack": "yes"} | fields
    return m.Load(str(path), **everything)
