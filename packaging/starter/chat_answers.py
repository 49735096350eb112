"""The dense base answers the questions: batched sampling, written to a JSON-lines file.

    python chat_answers.py BASE.gguf WORK_DIR [--count 256] [--part 0/2] [--questions FILE]

Parts are independent processes of one thread each; finished batches are not made again. With `--questions`
(one a line) the answers go to files named after FILE and are for judging only: training never reads them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from base_model import BaseModel
from chat_questions import questions
from moe_model import Cache, StarterModel
from tokenizers import Tokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
TEMPERATURE = 0.6
BATCH = 32
END_TOKEN = 2  # <|im_end|>
SEED = 20


def prompt_text(question: str) -> str:
    """The base's own chat template with its default system message."""
    turns = f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
    return turns + "<|im_start|>assistant\n"


@torch.no_grad()
def answer(
    model: StarterModel, tokenizer: Tokenizer, asked: list[str], limit: int, seed: int
) -> list[list[int]]:
    """Sampled answer ids without the prompt; an answer cut at `limit` has no end token."""
    generator = torch.Generator().manual_seed(seed)
    prompts = [tokenizer.encode(prompt_text(question)).ids for question in asked]
    longest = max(map(len, prompts))
    pads = torch.tensor([longest - len(prompt) for prompt in prompts])
    step = torch.tensor([[END_TOKEN] * (longest - len(prompt)) + prompt for prompt in prompts])
    positions = (torch.arange(longest) - pads.unsqueeze(1)).clamp_min(0)
    cache = Cache(model.base.shape, len(asked), longest + limit)
    answers: list[list[int]] = [[] for _ in asked]
    done = torch.zeros(len(asked), dtype=torch.bool)
    total = longest
    while total < longest + limit and not bool(done.all()):
        # Left padding: a row sees real tokens up to its own place, and itself so that no row is empty.
        query, key = torch.arange(total - step.shape[1], total).unsqueeze(1), torch.arange(total)
        mask = ((key <= query) & (key >= pads.view(-1, 1, 1, 1))) | (key == query)
        hidden, _ = model(step, positions, cache, mask)
        last = hidden.view(len(asked), step.shape[1], -1)[:, -1]
        chances = torch.softmax((last @ model.head.T) / TEMPERATURE, dim=1)
        chosen = torch.multinomial(chances, 1, generator=generator)
        for row in range(len(asked)):
            if not done[row]:
                answers[row].append(int(chosen[row]))
        done |= chosen.squeeze(1) == END_TOKEN
        step, positions, total = chosen, positions[:, -1:] + 1, total + 1
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--limit", type=int, default=128)
    parser.add_argument("--questions", type=Path, help="a file of questions, one a line")
    parser.add_argument("--part", default="0/1", help="K/N: this process's share")
    args = parser.parse_args()
    part, parts = map(int, args.part.split("/"))
    torch.set_num_threads(1)
    base = BaseModel(args.base)
    model, tokenizer = StarterModel(base, rank=0), base.tokenizer()
    if args.questions:
        every, name = args.questions.read_text(encoding="utf-8").splitlines(), args.questions.stem
    else:
        every, name = questions(args.count, SEED), "chat"
    asked = every[part::parts]
    out = args.work / f"{name}-{part}-of-{parts}.jsonl"
    out.parent.mkdir(parents=True, exist_ok=True)
    done = len(out.read_text().splitlines()) if out.exists() else 0
    for start in range(done, len(asked), BATCH):
        batch = asked[start : start + BATCH]
        answers = answer(model, tokenizer, batch, args.limit, seed=SEED + start * parts + part)
        lines = [json.dumps({"question": q, "answer": a}) for q, a in zip(batch, answers, strict=True)]
        with out.open("a") as file:
            file.write("\n".join(lines) + "\n")
        print(f"{min(start + BATCH, len(asked))}/{len(asked)} answers", flush=True)


if __name__ == "__main__":
    main()
