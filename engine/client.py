"""The app's door to an engine process: start it, send commands, receive events, notice its death.

Imports no torch and no numpy. One client owns at most one process at a time; `restart` replaces it.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from ebbtide.engine.errors import CARD_LOST_CODE, ContextError, EngineDied, UsageError
from ebbtide.engine.frames import ENDPOINT_VARIABLE
from ebbtide.engine.lifeline import PARENT_PID_VARIABLE
from ebbtide.engine.messages import Command, Event, Shutdown
from ebbtide.engine.stderr_log import StderrLog
from ebbtide.engine.wire import WireError, encode, event_reader

ENGINE_COMMAND = (sys.executable, "-m", "ebbtide.engine")
ENGINE_NICENESS = 2
"""Added to the app's own niceness, so that typing stays smooth while the engine computes."""
EXIT_WAIT_S = 5.0
"""After its pipe has closed, a process that still runs is given this long before it is killed."""


class Died(msgspec.Struct, frozen=True):
    """The process ended without being asked to. `returncode` is negative for a signal, as in subprocess."""

    returncode: int
    reason: str
    stderr_tail: tuple[str, ...] = ()

    def error(self) -> EngineDied:
        """The same as an exception with exit code 7."""
        hint = "Try again: the model is loaded anew. `ebbtide paths` names the engine's log."
        return EngineDied(f"The engine {self.reason}", hint=hint)


ClientEvent = Event | Died


def describe_exit(returncode: int) -> str:
    """`returncode` in words: "exited with code 3", "was killed by SIGKILL"."""
    if returncode == CARD_LOST_CODE:
        return "lost the card that it computed on"
    if returncode >= 0:
        return f"exited with code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    note = " (often: out of memory)" if name == "SIGKILL" else ""
    return f"was killed by {name}{note}"


class EngineClient:
    """One engine process. All methods may be called from the thread that made the client.

    Events go to `on_event` (called on the client's reader thread) or, without it, to `next_event`.
    `endpoint_folder` is where the engine may be found by `ebbtide top`; without it, it is not.
    On Linux the engine dies with the *thread* that called `start`: call it from a thread that lives on.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = ENGINE_COMMAND,
        log_path: Path | None = None,
        on_event: Callable[[ClientEvent], None] | None = None,
        endpoint_folder: Path | None = None,
    ) -> None:
        self._command = list(command)
        self._endpoint_folder = endpoint_folder
        self._log_path = log_path
        self._events: queue.SimpleQueue[ClientEvent] = queue.SimpleQueue()
        self._on_event = on_event or self._events.put
        self._last_request_id = 0
        self._run: _Run | None = None
        self.life = 0
        """How many processes were started: whoever queues events can tell those of an earlier one."""

    @property
    def running(self) -> bool:
        return self._run is not None and self._run.process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id while there is a process."""
        return self._run.process.pid if self._run is not None else None

    def start(self) -> None:
        """Start the process; returns at once. Raises EngineDied if it cannot be started."""
        if self.running:
            return
        self.close()
        process = _spawn(self._command, self._endpoint_folder)
        self.life += 1
        self._run = _Run(process, self._log_path, self._on_event)

    def restart(self) -> None:
        """End the process, if any, and start a fresh one; no event of the old one arrives afterwards."""
        self.close()
        while not self._events.empty():
            self._events.get_nowait()
        self.start()

    def next_request_id(self) -> int:
        """A request id never used before with this client (ids start at 1)."""
        self._last_request_id += 1
        return self._last_request_id

    def send(self, command: Command) -> None:
        """Queue a command; never blocks. If the process is gone, `Died` is or will be among the events.

        Raises UsageError and ContextError for text that no frame can carry: here, because the writer's thread
        has nobody to tell.
        """
        if self._run is None:
            raise RuntimeError("the engine was not started")
        self._run.outbox.put(_frame(command))

    def next_event(self, timeout_s: float | None = None) -> ClientEvent | None:
        """Wait for the next event; None after `timeout_s`. Only for a client without `on_event`."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def close(self, grace_s: float = 1.0) -> None:
        """Ask the process to end, terminate it after `grace_s`, kill it after as long again. No `Died`."""
        run, self._run = self._run, None
        if run is not None:
            run.close(grace_s)


class _Run:
    """One life of the process, with its reader and writer threads."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        log_path: Path | None,
        on_event: Callable[[ClientEvent], None],
    ) -> None:
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """Frames; None ends the pipe."""
        self._on_event = on_event
        self._closing = threading.Event()
        self.process = process
        _lower_priority(self.process.pid)
        assert self.process.stderr is not None
        self._stderr = StderrLog(self.process.stderr, log_path)
        self._reader = threading.Thread(target=self._read, name="engine-reader", daemon=True)
        self._reader.start()
        threading.Thread(target=self._write, name="engine-writer", daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        reader = event_reader(self.process.stdout)
        fault = ""
        try:
            while (event := reader.read()) is not None:
                self._deliver(event)
        except (WireError, OSError, ValueError) as error:
            fault = f"sent something unreadable ({error}) and was stopped"
            self._signal(signal.SIGKILL)
        self._deliver(self._obituary(fault))

    def _obituary(self, fault: str) -> Died:
        try:
            returncode = self.process.wait(EXIT_WAIT_S)
        except subprocess.TimeoutExpired:
            fault = fault or "closed its pipe but kept running, and was stopped"
            self._signal(signal.SIGKILL)
            returncode = self.process.wait()
        return Died(returncode, fault or describe_exit(returncode), self._stderr.tail())

    def _deliver(self, event: ClientEvent) -> None:
        if not self._closing.is_set():
            self._on_event(event)

    def _write(self) -> None:
        assert self.process.stdin is not None
        try:
            while (frame := self.outbox.get()) is not None:
                self.process.stdin.write(frame)
                self.process.stdin.flush()
            self.process.stdin.close()
        except (OSError, ValueError):
            pass  # the pipe is gone: the reader thread reports the death

    def close(self, grace_s: float) -> None:
        self._closing.set()
        self.outbox.put(encode(Shutdown()))
        self.outbox.put(None)
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                self.process.wait(grace_s)
                break
            except subprocess.TimeoutExpired:
                self._signal(number)
        self.process.wait()
        self._reader.join(grace_s)
        self._stderr.close()

    def _signal(self, number: signal.Signals) -> None:
        """Signal the process and whatever it started; a process that is gone already is no error."""
        try:
            if sys.platform == "win32":
                self.process.kill()
            else:
                os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _frame(command: Command) -> bytes:
    try:
        return encode(command)
    except UnicodeEncodeError as error:
        raise UsageError(
            "A text or a file's name holds bytes that are not UTF-8",
            hint="Rename the file, or give the text as UTF-8.",
        ) from error
    except WireError as error:
        raise ContextError(f"The prompt is too long: {error}", hint="Shorten the prompt.") from error


def _spawn(command: list[str], endpoint_folder: Path | None) -> "subprocess.Popen[bytes]":
    """Own session: Ctrl+C in the terminal reaches the app only, which then cancels the request."""
    environment = {**os.environ, PARENT_PID_VARIABLE: str(os.getpid())}
    if endpoint_folder is not None:
        environment[ENDPOINT_VARIABLE] = str(endpoint_folder)
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
        )
    except OSError as error:
        raise EngineDied(
            f"The engine could not be started: {error}", hint="Check the installation with `ebbtide doctor`."
        ) from error


def _lower_priority(pid: int) -> None:
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # already gone, or not allowed: priority is a nicety
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + ENGINE_NICENESS)
