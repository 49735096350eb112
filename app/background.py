"""Heavy work (numpy, gigabytes) in a process of its own, so that the app stays light and can stop it."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ebbtide.app.session import error_of
from ebbtide.engine.client import ClientEvent, Died, EngineClient
from ebbtide.engine.messages import Decision, Failed, Made, Progress

JOB_COMMAND = (sys.executable, "-m", "ebbtide.app.jobs")
WAKE_S = 1.0


def job_client(
    arguments: Sequence[str],
    log_path: Path | None,
    on_event: Callable[[ClientEvent], None] | None = None,
    command: Sequence[str] = JOB_COMMAND,
) -> EngineClient:
    """A client of `ebbtide.app.jobs ARGUMENTS`, not started yet: Progress..., then Made or Failed."""
    return EngineClient(command=[*command, *arguments], log_path=log_path, on_event=on_event)


def run_job(
    arguments: Sequence[str],
    log_path: Path | None,
    on_progress: Callable[[str, int, int], None],
    command: Sequence[str] = JOB_COMMAND,
    on_note: Callable[[str], None] = lambda sentence: None,
) -> Path:
    """Run `ebbtide.app.jobs ARGUMENTS` to its end and return the file it made; what it has to say meanwhile
    goes to `on_note`.

    Raises what the job raised, or EngineDied if it crashed.

    When this call is interrupted the job is asked to stop, and stopped two seconds later at the latest.
    """
    client = job_client(arguments, log_path, command=command)
    client.start()
    made = Path()
    try:
        while True:
            event = client.next_event(WAKE_S)
            if isinstance(event, Progress):
                on_progress(event.stage, event.done, event.total)
            elif isinstance(event, Decision):
                on_note(event.sentence)
            elif isinstance(event, Made):
                made = Path(event.path)
            elif isinstance(event, Failed):
                raise error_of(event)
            elif isinstance(event, Died):
                if event.returncode != 0:
                    raise event.error()
                return made
    finally:
        client.close()
