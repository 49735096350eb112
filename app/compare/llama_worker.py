"""llama.cpp in a process of its own: questions are JSON lines on standard input, answers on standard output.

    python -m ebbtide.app.compare.llama_worker

`{"do": "load", "model", "threads", "ctx", "parameters"}` is answered by what was set up, and
`{"do": "run", "text", "tokens"}` by counts and times. What goes wrong is `{"error": TEXT}`, or a death.
"""

import contextlib
import ctypes
import json
import os
import sys
import time
from typing import Any

from ebbtide.engine.lifeline import die_with_parent

ERROR_LEVEL = 4
"""GGML_LOG_LEVEL_ERROR"""


class Refused(Exception):
    """llama.cpp said no."""


class Llama:
    """One model and one context, driven through the C interface: nothing is copied that need not be."""

    def __init__(self, model: str, threads: int, ctx: int, parameters: dict[str, Any]) -> None:
        import llama_cpp

        self._library: Any = llama_cpp
        self._errors: list[str] = []
        self._callback = llama_cpp.llama_log_callback(self._log)  # kept: the library has only its address
        llama_cpp.llama_log_set(self._callback, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._model = self._load(model, parameters)
        self._vocabulary = llama_cpp.llama_model_get_vocab(self._model)
        self._context = self._begin(threads, ctx)
        self._sampler = llama_cpp.llama_sampler_init_greedy()
        self._batch_tokens = int(llama_cpp.llama_n_batch(self._context))

    def describe(self) -> dict[str, Any]:
        library = self._library
        return {
            "version": library.__version__,
            "ctx": int(library.llama_n_ctx(self._context)),
            "batch": self._batch_tokens,
            "ubatch": int(library.llama_n_ubatch(self._context)),
            "features": features_of(library.llama_print_system_info().decode()),
        }

    def run(self, text: str, tokens: int) -> dict[str, Any]:
        """Read `text` cold and decode `tokens` tokens greedily, whatever they are. Times in seconds."""
        library = self._library
        library.llama_memory_clear(library.llama_get_memory(self._context), True)
        began = time.perf_counter()
        prompt = self._tokens_of(text)
        encoded = time.perf_counter()
        for start in range(0, len(prompt), self._batch_tokens):
            self._decode(prompt[start : start + self._batch_tokens])
        library.llama_synchronize(self._context)
        read = time.perf_counter()
        token = self._sample()
        first = time.perf_counter()
        for _ in range(tokens - 1):
            self._decode([token])
            token = self._sample()
        ended = time.perf_counter()
        return {
            "prompt_tokens": len(prompt),
            "prefill_s": read - encoded,
            "first_token_s": first - began,
            "decode_s": ended - first,
            "peak_bytes": _peak_bytes(),
        }

    def _load(self, model: str, parameters: dict[str, Any]) -> Any:
        library = self._library
        settings = library.llama_model_default_params()
        settings.n_gpu_layers = 0
        for name, value in parameters.items():
            if not hasattr(settings, name):
                raise Refused(f"this version has no {name}")
            code = getattr(library, f"LLAMA_LOAD_MODE_{value}") if name == "load_mode" else value
            setattr(settings, name, code)
        loaded = library.llama_model_load_from_file(os.fsencode(model), settings)
        return loaded or self._refuse("the file was refused")

    def _begin(self, threads: int, ctx: int) -> Any:
        settings = self._library.llama_context_default_params()
        settings.n_ctx = ctx
        settings.n_threads = settings.n_threads_batch = threads
        context = self._library.llama_init_from_model(self._model, settings)
        return context or self._refuse("no context could be made")

    def _tokens_of(self, text: str) -> list[int]:
        raw = text.encode()
        room = len(raw) + 16
        tokens = (self._library.llama_token * room)()
        count = self._library.llama_tokenize(self._vocabulary, raw, len(raw), tokens, room, True, True)
        return list(tokens[:count]) if count > 0 else self._refuse("the prompt was refused")

    def _decode(self, tokens: list[int]) -> None:
        """The batch leaves scores of its last token only."""
        array = (self._library.llama_token * len(tokens))(*tokens)
        code = self._library.llama_decode(
            self._context, self._library.llama_batch_get_one(array, len(tokens))
        )
        if code != 0:
            self._refuse(f"llama_decode gave {code}")

    def _sample(self) -> int:
        return int(self._library.llama_sampler_sample(self._sampler, self._context, -1))

    def _refuse(self, what: str) -> Any:
        raise Refused(f"{what}: {self._errors[-1]}" if self._errors else what)

    def _log(self, level: int, text: bytes, user_data: object) -> None:
        """Errors alone are passed on."""
        if level == ERROR_LEVEL and (line := text.decode("utf-8", "replace").strip()):
            self._errors.append(line)
            print(line, file=sys.stderr, flush=True)


def features_of(information: str) -> list[str]:
    """What is switched on in "CPU : SSE3 = 1 | AVX = 0 | ": each backend's name stands before its first."""
    parts = (part.strip() for part in information.split("|"))
    return [part.removesuffix(" = 1").rpartition(" : ")[2] for part in parts if part.endswith(" = 1")]


def _peak_bytes() -> int:
    from ebbtide.engine.memory.observed import process_peak_bytes

    return process_peak_bytes() or 0


class Worker:
    """Answers questions, one after another."""

    def __init__(self) -> None:
        self._llama: Llama | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        do = question.pop("do")
        try:
            if do == "load":
                self._llama = Llama(**question)
                return self._llama.describe()
            assert self._llama is not None
            return self._llama.run(**question)
        except (Refused, ImportError, OSError, AttributeError) as error:  # the last: a version that differs
            return {"error": str(error)}


def main() -> None:
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    worker = Worker()
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        for line in sys.stdin:
            print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
