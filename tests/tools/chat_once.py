"""One engine process, a load, a few requests; prints one JSON line. The unit that `exactness.py` compares.

python tests/tools/chat_once.py MODEL --budget 60% --threads 2 --mode greedy|sampled|chat
"""

import argparse
import json
import sys
from typing import Any

from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Failed, Finished, Generate, Load, Loaded, Sampling, Turn

QUESTIONS = (
    "Write a Python function that parses an INI file without using configparser, and explain each step.",
    "Now add type hints and handle comments at the end of a line.",
    "What tests would you write for it? Show two of them.",
)
SAMPLED = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05, repeat_penalty=1.1, seed=20)


def wait_for(client: EngineClient, kind: type[Any]) -> Any:
    while True:
        event = client.next_event(600)
        if isinstance(event, kind):
            return event
        if event is None or isinstance(event, Failed) or type(event).__name__ == "Died":
            sys.exit(f"chat_once: {event}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--budget", default="100%")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--mode", choices=["greedy", "sampled", "chat"], default="greedy")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--cache-dir", default="")
    options = parser.parse_args()
    client = EngineClient()
    client.start()
    client.send(
        Load(
            options.model,
            budget=options.budget,
            ctx=options.ctx,
            threads=options.threads,
            isa=options.isa,
            pack="yes",
            cache_dir=options.cache_dir,
        )
    )
    loaded: Loaded = wait_for(client, Loaded)
    turns: list[Turn] = []
    answers: list[Finished] = []
    for question in QUESTIONS if options.mode == "chat" else QUESTIONS[:1]:
        turns.append(Turn("user", question))
        sampling = SAMPLED if options.mode == "sampled" else Sampling()
        client.send(
            Generate(
                client.next_request_id(), turns=list(turns), max_tokens=options.tokens, sampling=sampling
            )
        )
        answers.append(wait_for(client, Finished))
        turns.append(Turn("assistant", answers[-1].text))
    last = answers[-1]
    print(
        json.dumps(
            {
                "token_ids": [answer.token_ids for answer in answers],
                "cached": [answer.usage.cached for answer in answers],
                "finish": [answer.finish_reason for answer in answers],
                "hit_rate": last.memory.expert_hit_rate,
                "budget_bytes": last.memory.budget_bytes,
                "ledger_peak_bytes": last.memory.peak_bytes,
                "process_peak_bytes": last.memory.process_peak_bytes,
                "bytes_paged_in": last.memory.bytes_paged_in,
                "decode_tok_s": last.timings.decode_tok_s,
                "load_s": loaded.load_s,
            }
        )
    )
    client.close()


if __name__ == "__main__":
    main()
