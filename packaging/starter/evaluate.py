"""Held-out perplexity of the finished starter against the dense base, routing, and a chat sample.

    python evaluate.py BASE.gguf STARTER.gguf WORK_DIR [--rows 12]

Rows are spread evenly over the held-out files of a domain. Of a chat only the answer counts. Where the
dense base has answered `fresh_questions.txt` (chat_answers.py --questions), these answers are a domain of
their own: no question like them was trained on, and no setting was chosen by them.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from base_model import BaseModel
from corpus import chat_rows, read_chats
from file_model import FileModel
from head_loss import token_losses
from moe_model import EXPERTS, StarterModel
from numpy.typing import NDArray
from rows import SHARES
from torch import Tensor

BATCH_ROWS = 8
FRESH = "fresh_questions"
QUESTION = "What does a hash table do, and when would you use one?"


class Score(NamedTuple):
    """Mean loss in nats over `tokens` tokens, and tokens per expert [layers, experts] (empty if dense)."""

    loss: float
    tokens: int
    counts: Tensor


@torch.no_grad()
def score(model: StarterModel, rows: NDArray[np.int32], scored: NDArray[np.int32]) -> Score:
    losses, counts = [], torch.zeros(0)
    for start in range(0, len(rows), BATCH_ROWS):
        tokens = torch.from_numpy(rows[start : start + BATCH_ROWS]).long()
        keep = torch.from_numpy(scored[start : start + BATCH_ROWS]).bool().flatten()
        places = torch.arange(tokens.shape[1] - 1).expand(len(tokens), -1)
        hidden, routings = model(tokens[:, :-1], places)
        losses.append(token_losses(hidden[keep], model.head, tokens[:, 1:].flatten()[keep]))
        if routings:
            used = [routing.chosen.flatten().bincount(minlength=EXPERTS) for routing in routings]
            counts = counts + torch.stack(used) if counts.numel() else torch.stack(used)
    joined = torch.cat(losses)
    return Score(float(joined.mean()), len(joined), counts)


def entropies(counts: Tensor) -> list[float]:
    """Entropy of each layer's expert load as a share of the maximum, 1 = all experts alike."""
    shares = counts.double() / counts.sum(1, keepdim=True)
    entropy = -(shares * shares.clamp_min(1e-12).log()).sum(1) / math.log(counts.shape[1])
    return [round(float(value), 3) for value in entropy]


def spread(rows: NDArray[np.int32], count: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.int64))


def held_out_rows(work: Path, base: BaseModel) -> dict[str, tuple[NDArray[np.int32], NDArray[np.int32]]]:
    """(rows i32[n, 513], scored i32[n, 512]) by domain."""
    with np.load(work / "corpus.npz") as arrays:
        found = {
            domain: (arrays[f"{domain}.held_out.rows"], arrays[f"{domain}.held_out.scored"])
            for domain in SHARES
        }
    chats = read_chats(work, base.tokenizer(), f"{FRESH}-*.jsonl")
    packed = list(chat_rows([*chats["train"], *chats["held_out"]]))
    if packed:
        tokens, scored = zip(*packed, strict=True)
        found["chat, fresh questions"] = np.array(tokens, np.int32), np.array(scored, np.int32)
    return found


def sample(starter: Path) -> str:
    """A greedy answer by llama.cpp, or a note that it is not installed."""
    try:
        from llama_cpp import Llama
    except ImportError:
        return "(llama-cpp-python is not installed)"
    model: Any = Llama(str(starter), n_ctx=512, n_threads=torch.get_num_threads(), verbose=False)
    asked = [{"role": "user", "content": QUESTION}]
    reply = model.create_chat_completion(asked, max_tokens=120, temperature=0)
    return str(reply["choices"][0]["message"]["content"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "starter", "work"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--rows", type=int, default=12, help="rows of 512 tokens a domain")
    args = parser.parse_args()
    base = BaseModel(args.base)
    dense, starter = StarterModel(base, rank=0), FileModel(base, args.starter)
    total, found = torch.zeros(0), {}
    for domain, (rows, scored) in held_out_rows(args.work, base).items():
        chosen = spread(rows, args.rows)
        before, after = (score(model, rows[chosen], scored[chosen]) for model in (dense, starter))
        total = total + after.counts if total.numel() else after.counts
        found[domain] = {
            "tokens": after.tokens,
            "dense_perplexity": round(math.exp(before.loss), 3),
            "starter_perplexity": round(math.exp(after.loss), 3),
            "entropy": entropies(after.counts),
        }
        print(domain, json.dumps(found[domain]), flush=True)
    print("entropy per layer, all domains:", entropies(total))
    report = {"domains": found, "entropy": entropies(total)}
    (args.work / "evaluation.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{QUESTION}\n{sample(args.starter)}")


if __name__ == "__main__":
    main()
