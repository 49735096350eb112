"""A scripted engine process for tests: the real frames, no model. `command_line` starts it.

It answers every chat with `Script.answer` (or an echo of the last user turn), one token per word.
"""

import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO, Literal

import msgspec

from ebbtide.engine.lifeline import die_with_parent
from ebbtide.engine.messages import (
    Arm,
    ArmWidths,
    Bound,
    Cancel,
    Command,
    Count,
    CountChat,
    Counted,
    Decision,
    Event,
    Evict,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    Pin,
    Progress,
    Score,
    Scored,
    Shutdown,
    Snapshot,
    Timings,
    Token,
    Usage,
    Watch,
)
from ebbtide.engine.wire import command_reader, write_message
from tests.helpers.fake_experts import EXPERTS, LAYERS, FakeExperts, machine, memory


class Script(msgspec.Struct, frozen=True):
    """What the fake does. Zeros and empty strings mean: behave."""

    answer: str = ""
    answers: dict[str, str] = {}
    """The answers to certain questions, instead of `answer`."""
    after_answer: Literal["finish", "hold", "fail", "die"] = "finish"
    """What follows the last token; a held answer ends with its cancel."""
    released_in: str = ""
    """A folder: in front of what follows the last token, a file with the question's name is waited for."""
    token_delay_s: float = 0.0
    load_delay_s: float = 0.0
    progress_steps: int = 0
    notices: list[str] = []
    load_failure: list[str] = []
    """message, hint, exit code"""
    load_failure_of: str = ""
    """Only loads of files with this in their path fail."""
    request_failure: list[str] = []
    """message, hint, exit code; tokens of the question, if it alone is too long"""
    failure_delay_s: float = 0.0
    fail_when_turns: int = 0
    """Only chats of at least so many turns fail."""
    fail_after_tokens: int = 0
    """The failure comes after so many tokens of the answer."""
    slows_down: bool = False
    """Every answer is slower than the one before."""
    finish_reason: FinishReason = "stop"
    """Of an answer that is not cut by its limit. `context`: no answer goes on behind its end."""
    ctx: int = 4096
    model_ctx: int = 0
    smallest_budget_bytes: int = 0
    most_budget_bytes: int = 0
    base_bytes: int = 0
    expert_bytes: int = 0
    pack_below_bytes: int = 0
    pack_bytes: int = 0
    planes: int = 8
    fail_below_ctx: int = 0
    """Requests fail only while the context is smaller; 0 = always."""
    counts: bool = True
    """A `Count` is answered at once, with a token for each character, a `CountChat` with one for each word;
    else never.
    """
    opens_thinking: bool = False
    die_at_start: int = 0
    """exit code"""
    die_after_tokens: int = -1
    """SIGKILL itself after so many tokens of the first answer of a process."""
    garbage_after_tokens: int = -1
    ignore_shutdown: bool = False
    """Neither the command nor the end of standard input nor SIGTERM ends the process."""
    advice: str = ""
    """What is advised after each answer."""
    log: str = ""
    """A line for standard error."""
    record: str = ""
    """A file to which every command is appended as a JSON line."""


_START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from tests.helpers import fake_engine; fake_engine.main()"
)


def command_line(script: Script) -> list[str]:
    """The command that starts this fake, from any folder."""
    root = Path(__file__).parents[2]
    return [sys.executable, "-c", _START, str(root), msgspec.json.encode(script).decode()]


class FakeEngine:
    """Reads commands on a thread of its own, so that a cancel is seen in the middle of an answer."""

    def __init__(self, script: Script, commands: IO[bytes], events: IO[bytes]) -> None:
        self.script = script
        self.follows_bits = 0.0
        self.commands = commands
        self.events = events
        self.inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.cancelled: set[int] = set()
        self.experts = FakeExperts()
        self.ctx = 0
        self.finished_count = 0
        self.writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        reader = command_reader(self.commands)
        while (command := reader.read()) is not None:
            self._note(command)
            if isinstance(command, Cancel):
                self.cancelled.add(command.request_id)
            if isinstance(command, Count) and self.script.counts:
                self.emit(Counted(command.request_id, [len(text) for text in command.texts]))
            if isinstance(command, CountChat) and self.script.counts:
                words = sum(len(split_words(turn.content)) for turn in command.turns)
                self.emit(Counted(command.request_id, [words]))
            self.inbox.put(command)
        if not self.script.ignore_shutdown:
            os._exit(0)

    def _note(self, command: Command) -> None:
        if self.script.record:
            with open(self.script.record, "ab") as file:  # noqa: PTH123
                file.write(msgspec.json.encode(command) + b"\n")

    def emit(self, event: Event) -> None:
        with self.writing:
            write_message(self.events, event)

    def serve(self) -> None:
        while True:
            match self.inbox.get():
                case Load() as load:
                    self.load(load)
                case Generate() as request:
                    self.generate(request)
                case Score() as request:
                    self.score(request)
                case Arm() as wish:
                    self.arm(wish)
                case Watch() as watch if watch.every_s > 0:
                    self.emit(self.experts.residency())
                    self.emit(machine())
                case Pin() | Evict() | Bound() as wish:
                    self.by_hand(wish)
                case Shutdown() if not self.script.ignore_shutdown:
                    return
                case _:
                    pass

    def load(self, load: Load) -> None:
        steps = max(self.script.progress_steps, 1)
        for step in range(1, steps + 1):
            time.sleep(self.script.load_delay_s / steps)
            if self.script.progress_steps:
                self.emit(Progress("loading", step * 1_000_000, steps * 1_000_000))
        if self.script.load_failure and self.script.load_failure_of in load.path:
            self.emit(failure(0, self.script.load_failure))
            return
        self.ctx = load.ctx or self.script.ctx
        self.experts = FakeExperts(narrows=load.quality != "exact")
        name = load.path.rsplit("/", 1)[-1].removesuffix(".gguf")
        self.emit(
            Loaded(
                name=name,
                architecture="llama",
                ctx=self.ctx,
                vocabulary=49152,
                layers=LAYERS,
                experts=EXPERTS,
                isa="portable",
                threads=load.threads or 2,
                load_s=0.5,
                memory=memory(),
                notices=self.script.notices,
                opens_thinking=self.script.opens_thinking,
                model_ctx=self.script.model_ctx,
                smallest_budget_bytes=self.script.smallest_budget_bytes,
                most_budget_bytes=self.script.most_budget_bytes,
                base_bytes=self.script.base_bytes,
                expert_bytes=self.script.expert_bytes,
                page_bytes=1 << 16,
                pack_below_bytes=self.script.pack_below_bytes,
                pack_bytes=self.script.pack_bytes,
                width=load.width or self.script.planes,
                planes=self.script.planes,
            )
        )

    def generate(self, request: Generate) -> None:
        if self.fails(request, 0):
            return
        prompt = request.text if request.text is not None else request.turns[-1].content
        words = split_words(self.script.answers.get(prompt, self.script.answer) or f"You said: {prompt}")
        if request.ignore_end and self.script.finish_reason != "context":
            words *= -(-request.max_tokens // len(words))
        limit = request.max_tokens or len(words)
        reason: FinishReason = self.script.finish_reason if limit >= len(words) else "length"
        said: list[str] = []
        for number, word in enumerate(words[:limit]):
            self.misbehave(number)
            if number and self.fails(request, number):
                return
            time.sleep(self.script.token_delay_s)
            if request.request_id in self.cancelled:
                reason = "cancelled"
                break
            self.emit(Token(request.request_id, word, [number]))
            self.emit(self.snapshot(request, prompt, number + 1))
            said.append(word)
        self.misbehave(len(said))
        while self.script.released_in and not Path(self.script.released_in, prompt).exists():
            time.sleep(0.01)
        match self.script.after_answer:
            case "fail":
                self.emit(failure(request.request_id, ["out of luck", "Ask again.", "4"]))
                return
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hold":
                while request.request_id not in self.cancelled:
                    time.sleep(0.01)
                reason = "cancelled"
            case "finish":
                pass
        self.emit(self.finished(request, prompt, said, reason))
        if self.script.advice:
            self.emit(Decision(time.time(), "advice", self.script.advice))

    def fails(self, request: Generate, number: int) -> bool:
        """Whether the request fails after `number` tokens; then that has been said."""
        due = (
            bool(self.script.request_failure)
            and number == self.script.fail_after_tokens
            and len(request.turns) >= self.script.fail_when_turns
            and not 0 < self.script.fail_below_ctx <= self.ctx
        )
        if due:
            time.sleep(self.script.failure_delay_s)
            self.emit(failure(request.request_id, self.script.request_failure))
        return due

    def misbehave(self, number: int) -> None:
        if number == self.script.die_after_tokens:
            self.events.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == self.script.garbage_after_tokens:
            self.events.write(b"Segmentation fault, said a library on stdout\n")
            self.events.flush()

    def snapshot(self, request: Generate, prompt: str, count: int) -> Snapshot:
        prompt_tokens = len(split_words(prompt))
        return Snapshot(
            request_id=request.request_id,
            phase="decode",
            prompt_tokens=prompt_tokens,
            prompt_done=prompt_tokens,
            completion_tokens=count,
            context_used=prompt_tokens + count,
            context_size=self.script.ctx,
            decode_tok_s=50.0,
            prefill_tok_s=200.0,
            memory=memory(),
        )

    def finished(self, request: Generate, prompt: str, said: list[str], reason: FinishReason) -> Finished:
        self.finished_count += 1
        slower = self.finished_count if self.script.slows_down else 1
        return Finished(
            request_id=request.request_id,
            text="".join(said),
            token_ids=list(range(len(said))),
            finish_reason=reason,
            usage=Usage(len(split_words(prompt)), 0, len(said)),
            timings=Timings(0.5, 0.1, 200.0 / slower, 50.0 / slower, 0.02),
            memory=memory(),
        )

    def by_hand(self, wish: Pin | Evict | Bound) -> None:
        self.emit(self.experts.act(wish))
        self.emit(self.experts.residency())

    def score(self, request: Score) -> None:
        """A token a word; compared with every plane, half of its losses are the width's."""
        count = len(split_words(request.text))
        count = min(count, request.max_tokens - 1) if request.max_tokens else count
        ids, zeros = list(range(count)), [0] * count
        if not request.against_full:
            self.emit(Scored(request.request_id, ids, [-2.0] * count, zeros))
            return
        compared = [-1.0] * count, [0.5] * count, [int(at % 4 == 0) for at in ids]
        bits = self.follows_bits if request.follow else 0.0
        self.emit(Scored(request.request_id, ids, [-2.0] * count, zeros, *compared, read_bits=bits))

    def arm(self, wish: Arm) -> None:
        """Two blocks."""
        if self.script.request_failure:
            self.emit(failure(wish.request_id, self.script.request_failure))
            return
        found = wish.request_id, b"\x05\x06", wish.bits or 16.0, 50, 80, 160, ["Only an estimate"]
        self.follows_bits = wish.bits + 0.25 if wish.arm == "dp" else 0.0
        self.emit(ArmWidths(*found, follows=wish.arm in ("paged", "dp")))


def failure(request_id: int, parts: list[str]) -> Failed:
    tokens = int(parts[3]) if len(parts) > 3 else 0
    detail = "Traceback of the fake engine"
    return Failed(request_id, parts[0], parts[1], int(parts[2]), detail, question_tokens=tokens)


def split_words(text: str) -> list[str]:
    """`text` cut before each space, so that the parts joined are the text."""
    words = text.split(" ")
    return [words[0], *(" " + word for word in words[1:])] if text else []


def main() -> None:
    die_with_parent()
    script = msgspec.json.decode(sys.argv[-1].encode(), type=Script)
    if script.log:
        print(script.log, file=sys.stderr, flush=True)
    if script.die_at_start:
        sys.exit(script.die_at_start)
    if script.ignore_shutdown:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    unbuffered = open(0, "rb", buffering=0)  # noqa: SIM115 - a lock on sys.stdin would outlive main
    FakeEngine(script, unbuffered, sys.stdout.buffer).serve()
