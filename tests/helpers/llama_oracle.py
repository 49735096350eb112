"""llama.cpp's own tokenizer as the judge of ours."""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def silent_library() -> tuple[Any, object]:
    """llama.cpp without its log, and the function that it calls instead.

    That has to live as long as the process: whoever loads a model later makes llama.cpp call it again.
    """
    library: Any = pytest.importorskip("llama_cpp", reason="llama-cpp-python is the oracle here")
    silence = library.llama_log_callback(lambda *_: None)
    library.llama_log_set(silence, ctypes.c_void_p(0))
    return library, silence


class LlamaOracle:
    """Loads only the vocabulary of a GGUF file. Skips the test where llama-cpp-python is not installed."""

    def __init__(self, path: Path) -> None:
        self._library, _ = silent_library()
        parameters = self._library.llama_model_default_params()
        parameters.vocab_only = True
        self._model = self._library.llama_model_load_from_file(str(path).encode(), parameters)
        assert self._model, f"llama.cpp does not load {path}"
        self._vocab = self._library.llama_model_get_vocab(self._model)

    def encode(self, text: str, *, add_bos: bool, parse_special: bool) -> list[int]:
        raw = text.encode()
        room = len(raw) + 16
        tokens = (self._library.llama_token * room)()
        count = self._library.llama_tokenize(self._vocab, raw, len(raw), tokens, room, add_bos, parse_special)
        assert count >= 0
        return list(tokens[:count])

    def token_bytes(self, token: int) -> bytes:
        piece = ctypes.create_string_buffer(4096)
        length = self._library.llama_token_to_piece(self._vocab, token, piece, len(piece), 0, False)
        assert length >= 0
        return piece.raw[:length]

    def is_end(self, token: int) -> bool:
        return bool(self._library.llama_vocab_is_eog(self._vocab, token))

    def close(self) -> None:
        self._library.llama_model_free(self._model)
