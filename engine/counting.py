"""How many tokens texts are, for somebody who is still writing them.

Answered on a thread of its own, so that neither a step nor a command waits for a tokenizer. The thread holds
Python's lock while it tokenises, and the step thread needs that lock between two library calls: so it takes
small pieces, and while an answer is written it rests many times as long as each of them took.
"""

import queue
import re
import threading
import time
from collections.abc import Callable, Iterator

from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.messages import Count, Counted, Failed
from ebbtide.engine.text.tokenizer import Tokenizer

PIECE_CHARACTERS = 1024
"""About half a millisecond of work."""
REST_SHARE = 19
"""While an answer is written, counting takes a twentieth of the time at most."""
_LINE_END = re.compile(r"(?<=\S\n)(?=\S)")
_WORD_END = re.compile(r"(?<=\S)(?= \S)")


def pieces(text: str) -> Iterator[str]:
    """`text` in pieces whose tokens are those of the whole: cut where no word rule joins what is beside it,
    between a line and a next one that is not indented, or else in front of a single space. What has neither
    is cut somewhere, which may make a token more.
    """
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        end = start + PIECE_CHARACTERS
        ends = (last_match(rule, text, start + 1, end) for rule in (_LINE_END, _WORD_END))
        cut = next((place for place in ends if place is not None), end)
        yield text[start:cut]
        start = cut
    yield text[start:]


def last_match(rule: re.Pattern[str], text: str, start: int, end: int) -> int | None:
    """The last place in `text[start:end]` where `rule` holds."""
    return max((match.end() for match in rule.finditer(text, start, end)), default=None)


class Counter:
    """`emit` is called on the counter's thread, which begins with the first `take`.

    `is_busy` says whether a step is being computed. `pause` takes seconds.
    """

    def __init__(
        self,
        emit: Callable[[Counted | Failed], None],
        is_busy: Callable[[], bool] = lambda: False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.tokenizer: Tokenizer | None = None
        """Of the loaded model; set by the thread that loads."""
        self.is_busy = is_busy
        self._emit, self._pause = emit, pause
        self._waiting: queue.SimpleQueue[Count] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, command: Count) -> None:
        """Answer it later, in its turn. Called on one thread only."""
        self._waiting.put(command)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="counter", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            while True:
                self._emit(self.answer(self._waiting.get()))
        except OSError:
            pass  # the pipe is gone, and the process with it

    def answer(self, command: Count) -> Counted | Failed:
        """What is said to `command`."""
        try:
            if self.tokenizer is None:
                raise UsageError("no model is loaded", hint="Load a model first.")
            tokenizer = self.tokenizer
            return Counted(command.request_id, [self._count(tokenizer, text) for text in command.texts])
        except EbbtideError as error:
            return Failed(command.request_id, str(error), error.hint, error.exit_code)

    def _count(self, tokenizer: Tokenizer, text: str) -> int:
        tokens = 0
        for piece in pieces(text):
            began = time.perf_counter()
            tokens += tokenizer.count(piece)
            if self.is_busy():
                self._pause(REST_SHARE * (time.perf_counter() - began))
        return tokens
