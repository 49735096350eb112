"""Train routers and expert deltas; stop it at any time, it resumes from its last checkpoint.

    python train.py BASE.gguf WORK_DIR [--tokens 450000] [--deadline 2026-01-31T23:55]

Writes WORK_DIR/checkpoint.pt every few minutes, WORK_DIR/checkpoint-constant.pt before the rate falls
(rename it to checkpoint.pt to train longer instead), and one line a step to WORK_DIR/log.jsonl.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import math
import time
from pathlib import Path
from typing import Any

import torch
from base_model import BaseModel
from moe_model import EXPERTS, StarterModel
from rows import RowSource
from schedule import Schedule
from workers import Result, Task, Workers

WARMUP_STEPS = 10
LOAD_MEMORY = 0.9  # share of the old expert load that a step keeps


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--rows", type=int, default=4, help="rows of 512 tokens a step")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--balance", type=float, default=0.01)
    parser.add_argument("--tokens", type=int, default=450_000)
    parser.add_argument("--deadline", type=datetime.datetime.fromisoformat, help="UTC")
    parser.add_argument("--decay-minutes", type=float, default=20.0)
    parser.add_argument("--checkpoint-minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=20)
    return parser.parse_args()


class Run:
    """Model, optimiser and what a checkpoint holds."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.model = StarterModel(BaseModel(args.base), args.rank, args.seed)
        self.workers = Workers(self.model, args.workers)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=args.rate, betas=(0.9, 0.95), weight_decay=0.01, fused=True
        )
        self.rows = RowSource(args.work / "corpus.npz", args.seed)
        self.step = self.tokens = 0
        self.load = torch.full((self.model.base.shape.layers, EXPERTS), 1 / EXPERTS)
        self.path = args.work / "checkpoint.pt"
        if self.path.exists():
            self._resume(torch.load(self.path, weights_only=True))

    def _resume(self, saved: dict[str, Any]) -> None:
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), saved["parameters"], strict=True):
                parameter.copy_(value)
        self.optimizer.load_state_dict(saved["optimizer"])
        self.step, self.tokens, self.load = saved["step"], saved["tokens"], saved["load"]

    def save(self, path: Path) -> None:
        state = {
            "parameters": [parameter.data for parameter in self.model.parameters()],
            "names": [name for name, _ in self.model.named_parameters()],
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "tokens": self.tokens,
            "load": self.load,
            "rank": self.args.rank,
            "recipe": {name: getattr(self.args, name) for name in ("rate", "balance", "rows", "seed")},
        }
        part = path.with_suffix(".part")
        torch.save(state, part)
        part.replace(path)

    def train_step(self, rate: float) -> list[Result]:
        rows = self.rows.step_rows(self.step, self.args.rows)
        scored = sum(int(row.scored.sum()) for row in rows)
        balance = self.args.balance / len(rows)
        results = self.workers.step([Task(row, 1 / scored, balance, self.load) for row in rows])
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.workers.clear()
        counts = torch.stack([result.counts for result in results]).sum(0).float()
        shares = counts / counts.sum(1, keepdim=True)
        self.load = LOAD_MEMORY * self.load + (1 - LOAD_MEMORY) * shares
        self.step += 1
        self.tokens += sum(len(row.scored) for row in rows)
        return results


def report(run: Run, results: list[Result], rate: float, seconds: float) -> dict[str, Any]:
    sums: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    for result in results:
        sums[result.domain][0] += result.loss
        sums[result.domain][1] += result.tokens
    entropy = -(run.load * run.load.clamp_min(1e-9).log()).sum(1) / math.log(EXPERTS)
    return {
        "step": run.step,
        "tokens": run.tokens,
        "rate": round(rate, 6),
        "tokens_per_s": round(run.args.rows * 512 / seconds, 1),
        "entropy": [round(float(entropy.min()), 3), round(float(entropy.mean()), 3)],
        "loss": {domain: round(loss / tokens, 3) for domain, (loss, tokens) in sorted(sums.items())},
    }


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    run = Run(args)
    deadline = args.deadline.replace(tzinfo=datetime.UTC).timestamp() if args.deadline else math.inf
    schedule = Schedule(args.rate, WARMUP_STEPS, args.tokens, 0.25, deadline, args.decay_minutes * 60)
    constant = args.work / "checkpoint-constant.pt"
    saved_at = time.time()
    while (rate := schedule.rate(run.step, run.tokens, time.time())) > 0:
        cooling = run.step >= WARMUP_STEPS and rate < args.rate
        if cooling and not constant.exists():
            run.save(constant)
        started = time.time()
        results = run.train_step(rate)
        line = json.dumps(report(run, results, rate, time.time() - started))
        with (args.work / "log.jsonl").open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)
        if time.time() - saved_at > args.checkpoint_minutes * 60:
            run.save(run.path)
            saved_at = time.time()
    run.save(run.path)


if __name__ == "__main__":
    main()
