"""A llama.cpp worker for tests: the real lines, no model. Its first argument says how it behaves.

`ok`; `unsteady`: every run takes longer; `crash`, `abort`, `refuse`, `hang`, `mumble` at the load;
`crash-default`: at the load in the first configuration only; `crash-late FILE`: the first process at its
6th request, which is noted in FILE, dies.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

LATE = 6


def misbehave(how: str) -> None:
    match how:
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "abort":
            print("GGML_ASSERT(tensor) failed", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGABRT)
        case "hang":
            time.sleep(600)


def load_answer(how: str, question: dict[str, Any]) -> str:
    if how == "crash-default":
        how = "ok" if question["parameters"] else "crash"
    misbehave(how)
    if how == "mumble":
        return "ggml_init: found 1 device"
    if how == "refuse":
        return json.dumps({"error": "the file was refused: unknown architecture"})
    return json.dumps({"version": "0.0", "ctx": question["ctx"], "features": ["AVX2", "REPACK"]})


def main() -> None:
    how, requests = sys.argv[1], 0
    for line in sys.stdin:
        question = json.loads(line)
        if question["do"] == "load":
            print(load_answer(how, question), flush=True)
            continue
        requests += 1
        if how == "crash-late" and requests == LATE and not Path(sys.argv[2]).exists():
            Path(sys.argv[2]).touch()
            misbehave("crash")
        count = len(question["text"].split())
        slower = requests if how == "unsteady" else 1
        times = {
            "prefill_s": slower * count / 100,
            "first_token_s": 0.4,
            "decode_s": (question["tokens"] - 1) / 25,
        }
        print(json.dumps({"prompt_tokens": count, "peak_bytes": 5 << 20, **times}), flush=True)


if __name__ == "__main__":
    main()
