"""The background process behind `run_job`: makes the starter or a pack, or looks into a model file; reports
progress as frames.

python -m ebbtide.app.jobs starter FOLDER QUANT [force]
python -m ebbtide.app.jobs pack MODEL OUT_OR_EMPTY CACHE_FOLDER [resume] [any-precision]
python -m ebbtide.app.jobs check MODEL
"""

import _thread
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO

from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.lifeline import die_with_parent
from ebbtide.engine.messages import Decision, Failed, Made, Progress
from ebbtide.engine.wire import write_message

MIN_INTERVAL_S = 0.05
RESUME, ANY_PRECISION = "resume", "any-precision"


class Reporter:
    """Sends progress up the pipe, a few frames a second; the end of a stage is always sent."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._sent_at = 0.0
        self._stage = ""

    def progress(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage or done >= total or now - self._sent_at >= MIN_INTERVAL_S:
            self._sent_at, self._stage = now, stage
            write_message(self._stream, Progress(stage, done, total))

    def decision(self, sentence: str) -> None:
        """Something to tell the person at once."""
        write_message(self._stream, Decision(time.time(), "pack", sentence))

    def made(self, path: Path) -> None:
        write_message(self._stream, Made(str(path)))

    def failure(self, error: BaseException) -> None:
        detail = "".join(traceback.format_exception(error))
        if isinstance(error, EbbtideError):
            message, hint, code = str(error), error.hint, error.exit_code
        else:
            message, hint, code = f"{type(error).__name__}: {error}", "Run it again with --debug.", 1
        write_message(self._stream, Failed(0, message, hint, code, detail))


def make_starter(reporter: Reporter, folder: str, quant: str, force: str = "") -> Path:
    from ebbtide.engine.starter import ensure_starter

    return ensure_starter(Path(folder), quant, force=force == "force", progress=reporter.progress)


def make_pack(reporter: Reporter, model: str, out: str, cache: str, *flags: str) -> Path:
    from ebbtide.engine.gguf import open_gguf
    from ebbtide.engine.model.open import FLOOR_PLANES, page_size_for
    from ebbtide.engine.precision.book_moments import book_wish
    from ebbtide.engine.weights.gguf_source import GgufSource
    from ebbtide.engine.weights.pack_index import pack_path_for
    from ebbtide.engine.weights.pack_source import is_pack, open_pack
    from ebbtide.engine.weights.pack_write import write_pack

    path = Path(model)
    file = open_gguf(path)
    if is_pack(file):
        raise UsageError(f"{path.name} is a pack already", hint=f"Run it: `ebbtide run {path}`.")
    source = GgufSource(file, floor_planes=FLOOR_PLANES)
    try:
        if not source.spec.experts:
            raise UsageError(f"{path.name} has no experts to page", hint="A dense model needs no pack.")
        books, sentences = book_wish(source, Path(cache)) if ANY_PRECISION in flags else (None, ())
        page_bytes = page_size_for(source, books).page_bytes
    finally:
        source.close()
    for sentence in sentences:
        reporter.decision(sentence)
    pack = write_pack(
        path,
        Path(out) if out else pack_path_for(path, Path(cache), books=books is not None),
        page_bytes=page_bytes,
        floor_planes=FLOOR_PLANES,
        books=books,
        progress=lambda done, total: reporter.progress("packing", done, total),
        resume=RESUME in flags,
    )
    if books is not None:
        made = open_pack(pack)
        made.close()
        for sentence in made.notices:
            reporter.decision(sentence)
    return pack


def check_model(reporter: Reporter, model: str) -> Path:
    from ebbtide.engine.model.check import check_file

    check_file(Path(model))
    return Path(model)


JOBS: dict[str, Callable[..., Path]] = {"starter": make_starter, "pack": make_pack, "check": check_model}


def _stop_when_abandoned() -> None:
    """The app closes our standard input to stop us; it writes nothing that we have to read."""
    with open(0, "rb", buffering=0, closefd=False) as stream:
        while stream.read(4096):
            break
    _thread.interrupt_main()


def _own_pipe() -> IO[bytes]:
    """The pipe to the app; whatever else is printed goes to standard error."""
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return stream


def main(arguments: list[str]) -> int:
    die_with_parent()
    reporter = Reporter(_own_pipe())
    threading.Thread(target=_stop_when_abandoned, daemon=True).start()
    name, *rest = arguments
    try:
        reporter.made(JOBS[name](reporter, *rest))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        reporter.failure(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
