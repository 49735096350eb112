"""The process that llama.cpp runs in, seen from outside: questions, answers, and how it fails."""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from ebbtide.app.safe_text import safe_line
from ebbtide.engine.client import describe_exit
from ebbtide.engine.lifeline import PARENT_PID_VARIABLE
from ebbtide.engine.stderr_log import StderrLog

WORKER_COMMAND = (sys.executable, "-m", "ebbtide.app.compare.llama_worker")
WAKE_S = 1.0
"""Waits are cut into pieces so that a signal is seen on every system."""
END_WAIT_S = 5.0


class LlamaFailed(Exception):
    """llama.cpp refused, died, hung or spoke nonsense; the text says which, after the word "it"."""


class LlamaProcess:
    """Starts at once; `close` ends it whatever it does then. On Linux it dies with its maker's thread."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**os.environ, PARENT_PID_VARIABLE: str(os.getpid()), "GGML_NO_BACKTRACE": "1"}
        pipe = subprocess.PIPE
        try:
            # Own session: Ctrl+C in the terminal reaches the app only.
            self._process = subprocess.Popen(
                list(command), stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
            )
        except OSError as error:
            raise LlamaFailed(f"could not be started: {error}") from error
        assert self._process.stderr is not None
        self._stderr = StderrLog(self._process.stderr, None)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="llama-reader", daemon=True).start()

    def ask(self, question: dict[str, Any], patience_s: float) -> dict[str, Any]:
        """The answer to `question`. Raises LlamaFailed, after which the process is of no use."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it is gone: the end of its answers says so
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        line = self._next_line(patience_s)
        if not line:
            raise LlamaFailed(self._obituary())
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise LlamaFailed("said something unreadable")
        if "error" in answer:
            raise LlamaFailed(f"refused: {safe_line(str(answer['error']))}")
        return answer

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        self._stderr.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._process.stdout:
                self._lines.put(line)
        self._lines.put(b"")

    def _next_line(self, patience_s: float) -> bytes:
        """Empty at the end. Raises LlamaFailed when nothing comes in time."""
        deadline = time.monotonic() + patience_s
        while (left := deadline - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._lines.get(timeout=min(left, WAKE_S))
        raise LlamaFailed(f"did not answer within {patience_s:.0f} s")

    def _obituary(self) -> str:
        try:
            returncode = self._process.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe but kept running"
        tail = self._stderr.tail()
        return describe_exit(returncode) + (f": {safe_line(tail[-1])}" if tail and tail[-1] else "")
