"""Texts and chats as rows of token ids, split by file into training and held-out rows.

    python corpus.py BASE.gguf WORK_DIR

Writes WORK_DIR/corpus.npz with, for each domain and split, `rows` [n, 513] and `scored` [n, 512]
(which of the next tokens count), and WORK_DIR/sources.json.
"""

from __future__ import annotations

import argparse
import collections
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from base_model import BaseModel
from chat_answers import prompt_text
from numpy.typing import NDArray
from sources import all_texts, held_out
from tokenizers import Tokenizer

ROW = 512
SEPARATOR = 0  # <|endoftext|>
CHAT_HELD_OUT_ONE_IN = 8
CHAT_ORIGIN = "answers sampled from the dense base to generated questions"
Row = tuple[list[int], list[int]]  # tokens [513], scored [512]


def chat_rows(conversations: list[tuple[list[int], list[int]]]) -> Iterator[Row]:
    """Whole conversations (prompt, answer) packed into rows; only answers are scored."""
    tokens: list[int] = []
    scored: list[int] = []
    for prompt, answer in conversations:
        if len(tokens) + len(prompt) + len(answer) > ROW + 1:
            yield _padded(tokens, scored)
            tokens, scored = [], []
        tokens += prompt + answer
        scored += [0] * len(prompt) + [1] * len(answer)
    if tokens:
        yield _padded(tokens, scored)


def _padded(tokens: list[int], scored: list[int]) -> Row:
    missing = ROW + 1 - len(tokens)
    return tokens + [SEPARATOR] * missing, scored[1:] + [0] * missing


def text_rows(stream: list[int]) -> Iterator[Row]:
    for start in range(0, len(stream) - ROW, ROW):
        yield stream[start : start + ROW + 1], [1] * ROW


def read_chats(
    work: Path, tokenizer: Tokenizer, pattern: str = "chat-*.jsonl"
) -> dict[str, list[tuple[list[int], list[int]]]]:
    """(prompt, answer) ids of the files `pattern` in `work`, by split."""
    chats: dict[str, list[tuple[list[int], list[int]]]] = {"train": [], "held_out": []}
    for path in sorted(work.glob(pattern)):
        for line in path.read_text().splitlines():
            chat = json.loads(line)
            split = "held_out" if held_out(chat["question"], CHAT_HELD_OUT_ONE_IN) else "train"
            chats[split].append((tokenizer.encode(prompt_text(chat["question"])).ids, chat["answer"]))
    return chats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("work", type=Path)
    args = parser.parse_args()
    tokenizer = BaseModel(args.base).tokenizer()
    streams: dict[tuple[str, str], list[int]] = collections.defaultdict(list)
    counts: dict[tuple[str, str, str], collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for text in all_texts():
        split = "held_out" if held_out(text.name) else "train"
        ids = tokenizer.encode(text.text).ids
        streams[text.domain, split] += [SEPARATOR, *ids]
        counts[text.domain, text.origin, text.licence].update(
            {f"{split}_files": 1, f"{split}_tokens": len(ids)}
        )
    rows = {key: list(text_rows(stream)) for key, stream in streams.items()}
    for split, chats in read_chats(args.work, tokenizer).items():
        rows["chat", split] = list(chat_rows(chats))
        tokens = sum(len(answer) for _, answer in chats)
        counts["chat", CHAT_ORIGIN, "Apache-2.0"].update(
            {f"{split}_files": len(chats), f"{split}_tokens": tokens}
        )
    arrays: dict[str, NDArray[np.int32]] = {}
    for (domain, split), made in rows.items():
        arrays[f"{domain}.{split}.rows"] = np.array([row[0] for row in made], np.int32)
        arrays[f"{domain}.{split}.scored"] = np.array([row[1] for row in made], np.int32)
        print(f"{domain} {split}: {len(made)} rows")
    np.savez(args.work / "corpus.npz", **arrays)  # type: ignore[arg-type]
    listed = [
        {"domain": domain, "origin": origin, "licence": licence, **dict(sorted(count.items()))}
        for (domain, origin, licence), count in counts.items()
    ]
    (args.work / "sources.json").write_text(json.dumps(listed, indent=1) + "\n")


if __name__ == "__main__":
    main()
