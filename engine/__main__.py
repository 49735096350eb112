"""The engine process: commands come on standard input, events go out on what was standard output."""

import contextlib
import os
import queue
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ebbtide.engine.errors import CARD_LOST_CODE
from ebbtide.engine.frames import ENDPOINT_VARIABLE
from ebbtide.engine.lifeline import die_with_parent, exit_after
from ebbtide.engine.messages import Cancel, Command, Count
from ebbtide.engine.wire import WireError, command_reader

if TYPE_CHECKING:
    from ebbtide.engine.counting import Counter
    from ebbtide.engine.endpoint import Endpoint
    from ebbtide.engine.hub import Hub
    from ebbtide.engine.loop import Engine

EXIT_GRACE_S = 1.0
"""After the app has gone, a step in progress may take this long before the process is ended."""


def _take_over_stdout() -> BinaryIO:
    """The pipe to the app; whatever else prints goes to standard error instead of into a frame."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return pipe


class Inbox:
    """Commands in order of arrival; a cancel is seen at once, between two layers of a running step."""

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self.counter: Counter | None = None
        """Answers each `Count` beside the other commands; until it is there they wait in line."""

    def run(self) -> None:
        """Read standard input until it ends; an unreadable frame ends it too."""
        reader = command_reader(sys.stdin.buffer)
        try:
            while (command := reader.read()) is not None:
                if isinstance(command, Cancel):
                    self._cancelled.add(command.request_id)
                if isinstance(command, Count) and self.counter is not None:
                    self.counter.take(command)
                else:
                    self._commands.put(command)
        except (WireError, OSError) as error:
            print(f"engine: {error}", file=sys.stderr)
        exit_after(EXIT_GRACE_S)
        self._commands.put(None)

    def is_cancelled(self, request_id: int) -> bool:
        return request_id in self._cancelled

    def forget(self, request_id: int) -> None:
        self._cancelled.discard(request_id)

    def put(self, command: Command) -> None:
        """Add a command that did not come through the pipe: a viewer's."""
        self._commands.put(command)

    def next(self, *, wait: bool) -> Command | None:
        """The next command; None when the app is gone. Raises queue.Empty if there is none and `wait` is
        False.
        """
        return self._commands.get(block=wait)


def _open_endpoint(hub: "Hub", inbox: Inbox) -> "Endpoint | None":
    """Let viewers attach, if the app named a folder for it. Without, or where it fails, there are none."""
    folder = os.environ.get(ENDPOINT_VARIABLE)
    if not folder:
        return None
    from ebbtide.engine.endpoint import Endpoint

    try:
        return Endpoint(Path(folder), os.getpid(), hub.frame, inbox.put)
    except OSError as error:
        print(f"engine: `ebbtide top` cannot attach: {error}", file=sys.stderr)
        return None


def run_to_the_end(engine: "Engine") -> None:
    """Run until the app has enough. A card that is lost ends the process, with a code that says so."""
    from ebbtide.engine.device.faults import card_fault

    try:
        engine.run()
    except Exception as error:
        if card_fault(error) != "lost":
            raise
        print(f"engine: the card is lost: {error}", file=sys.stderr, flush=True)
        os._exit(CARD_LOST_CODE)


def run() -> None:
    """Until the app is gone. Whatever it raises has not been foreseen."""
    die_with_parent()
    pipe = _take_over_stdout()
    inbox = Inbox()
    threading.Thread(target=inbox.run, name="inbox", daemon=True).start()

    # Imported late: the pipe is ready before numpy and the kernels are loaded.
    from ebbtide.engine.counting import Counter
    from ebbtide.engine.hub import Hub
    from ebbtide.engine.loop import Engine
    from ebbtide.engine.observer import Observer, look_at_machine

    hub = Hub(pipe)
    endpoint = _open_endpoint(hub, inbox)
    inbox.counter = Counter(hub.emit)
    with contextlib.suppress(BrokenPipeError):  # the app went away in the middle of an event
        # The observer asks the engine for its card, and the engine tells the observer who looks.
        observer = Observer(hub.emit, lambda: look_at_machine(engine.card))
        uses = endpoint.uses if endpoint is not None else lambda model: None
        engine = Engine(hub.emit, inbox, observer.set_rate, inbox.counter, uses)
        run_to_the_end(engine)
    if endpoint is not None:
        endpoint.close()


def main() -> None:
    try:
        run()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Threads of readers and kernels hold nothing that needs a tidy end, and Python's own end cannot take
    # standard input from the thread that waits for it: it would abort.
    os._exit(0)


if __name__ == "__main__":
    main()
