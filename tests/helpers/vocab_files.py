"""GGUF files that hold only a tokenizer, both kinds, with vocabularies made on the spot."""

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from tests.helpers.nasty_texts import NASTY
from tests.helpers.tiny_gguf import build_gguf

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
CONTROLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_DEFINED_TEXTS = ("<think>", "</think>", "<tool_call>")
MODEL, PRE, LIST, TYPES = (f"tokenizer.ggml.{name}" for name in ("model", "pre", "tokens", "token_type"))
SCORES, MERGES, BOS, EOS = (
    f"tokenizer.ggml.{name}" for name in ("scores", "merges", "bos_token_id", "eos_token_id")
)
UNK, ADD_BOS, ADD_SPACE = (
    f"tokenizer.ggml.{name}" for name in ("unknown_token_id", "add_bos_token", "add_space_prefix")
)
TEMPLATE = "tokenizer.chat_template"


def write_vocab(path: Path, keys: Mapping[str, object]) -> Path:
    """A vocabulary-only file that llama.cpp loads too."""
    path.write_bytes(build_gguf({"general.architecture": "llama", **keys}))
    return path


def byte_level_keys(pre: str = "qwen2") -> dict[str, object]:
    """A byte-level BPE vocabulary: three control tokens, about 1,500 pieces, three user-defined tokens."""
    pieces, merges = _trained()
    tokens = [*CONTROLS, *pieces, *USER_DEFINED_TEXTS]
    kinds = [CONTROL] * len(CONTROLS) + [NORMAL] * len(pieces) + [USER_DEFINED] * len(USER_DEFINED_TEXTS)
    keys: dict[str, object] = {MODEL: "gpt2", PRE: pre, LIST: tokens, TYPES: np.array(kinds, np.int32)}
    return keys | {MERGES: list(merges), BOS: 1, EOS: 2, ADD_BOS: False}


def sentencepiece_keys(*, add_space: bool = True) -> dict[str, object]:
    """A SentencePiece vocabulary of frequent stretches of up to 6 characters; each score belongs to three."""
    text = "".join(NASTY).replace(" ", "\u2581")
    counts = Counter(text[i : i + n] for n in range(1, 7) for i in range(len(text) - n))
    frequent = [piece for piece, _ in counts.most_common(1500) if piece.isprintable() and piece != "\u2581"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *frequent]
    kinds = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (1 + len(frequent))
    scores = [0.0] * 259 + [-float(rank // 3) for rank in range(1 + len(frequent))]
    tokens += ["<think>", "[INST]"]
    kinds += [USER_DEFINED, CONTROL]
    keys: dict[str, object] = {
        MODEL: "llama",
        LIST: tokens,
        TYPES: np.array(kinds, np.int32),
        ADD_SPACE: add_space,
    }
    return keys | {SCORES: np.array([*scores, 0.0, 0.0], np.float32), BOS: 1, EOS: 2, UNK: 0, ADD_BOS: True}


@cache
def _trained() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(pieces, merges) of a BPE trained on the nasty texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(NASTY, trainer)
    ids = tokenizer.get_vocab()
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return tuple(sorted(ids, key=lambda piece: ids[piece])), tuple(" ".join(merge) for merge in merges)
