"""Decode and prefill against llama.cpp on one file: same threads, interleaved pairs, medians and quartiles.

    python tests/tools/race.py MODEL [--pairs 9 --threads 2 --prefill 512 --decode 64 --json]

Each contender has its own process and is idle while the other runs. Which of them goes first alternates.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Clear, Failed, Finished, Generate, Load, Loaded

WORDS = "the parser reads a line and returns every section with its options as text and numbers "


class Ours:
    name = "ebbtide"

    def __init__(self, options: argparse.Namespace) -> None:
        self._client = EngineClient()
        self._client.start()
        load = Load(
            options.model, budget="100%", ctx=options.prefill + options.decode + 64, threads=options.threads,
            isa=options.isa, pack="yes", cache_dir=options.cache_dir,
        )  # fmt: skip
        self._client.send(load)
        loaded = self._wait(Loaded)
        self.configuration = f"isa {loaded.isa}, {loaded.threads} threads, budget 100 %"

    def _wait(self, kind: type[Any]) -> Any:
        while not isinstance(event := self._client.next_event(600), kind):
            if event is None or isinstance(event, Failed) or type(event).__name__ == "Died":
                sys.exit(f"race: {event}")
        return event

    def run(self, prompt_tokens: int, tokens: int) -> tuple[float, float]:
        """Prefill and decode tokens a second of one cold request. One word of the text is one token."""
        text = " ".join((WORDS * (prompt_tokens // 8)).split()[:prompt_tokens])
        self._client.send(Clear())
        request = Generate(self._client.next_request_id(), text=text, max_tokens=tokens)
        self._client.send(request)
        finished: Finished = self._wait(Finished)
        return finished.timings.prefill_tok_s, finished.timings.decode_tok_s

    def close(self) -> None:
        self._client.close()


class Llama:
    name = "llama.cpp"

    def __init__(self, options: argparse.Namespace) -> None:
        command = [sys.executable, __file__, options.model, "--worker", "--threads", str(options.threads)]
        command += ["--prefill", str(options.prefill), "--decode", str(options.decode)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.configuration = str(self._ask("configuration"))

    def _ask(self, question: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def run(self, prompt_tokens: int, tokens: int) -> tuple[float, float]:
        prefill, decode = self._ask(f"{prompt_tokens} {tokens}")
        return prefill, decode

    def close(self) -> None:
        self._process.terminate()


def worker(options: argparse.Namespace) -> None:
    """llama.cpp's side: answers each line of standard input with a JSON line."""
    import llama_cpp

    size = options.prefill + options.decode + 64
    llama = llama_cpp.Llama(
        options.model, n_ctx=size, n_batch=512, n_ubatch=512, n_threads=options.threads,
        n_threads_batch=options.threads, verbose=False,
    )  # fmt: skip
    ids = llama.tokenize((WORDS * (options.prefill // 8)).encode(), add_bos=False)
    for line in sys.stdin:
        if line.strip() == "configuration":
            print(json.dumps(f"llama-cpp-python {llama_cpp.__version__}, n_batch 512"), flush=True)
            continue
        prompt_tokens, tokens = map(int, line.split())
        llama.reset()
        began = time.perf_counter()
        llama.eval(ids[:prompt_tokens])
        first = time.perf_counter()
        for _ in range(tokens - 1):
            logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(llama.ctx, -1), (llama.n_vocab(),))
            llama.eval([int(logits.argmax())])
        ended = time.perf_counter()
        speeds = prompt_tokens / (first - began), (tokens - 1) / max(ended - first, 1e-9)
        print(json.dumps(speeds), flush=True)


def summary(values: list[float]) -> dict[str, float]:
    quartiles = statistics.quantiles(values, n=4)
    return {"median": statistics.median(values), "q1": quartiles[0], "q3": quartiles[2]}


def race(options: argparse.Namespace) -> dict[str, Any]:
    contenders: list[Ours | Llama] = [Ours(options), Llama(options)]
    speeds: dict[str, dict[str, list[float]]] = {
        contender.name: {"prefill": [], "decode": []} for contender in contenders
    }
    for contender in contenders:
        contender.run(options.prefill, options.decode)  # warm
    for pair in range(options.pairs):
        for contender in contenders if pair % 2 == 0 else contenders[::-1]:
            prefill, _ = contender.run(options.prefill, 2)
            _, decode = contender.run(32, options.decode)
            speeds[contender.name]["prefill"].append(prefill)
            speeds[contender.name]["decode"].append(decode)
    ours, theirs = (speeds[contender.name] for contender in contenders)
    result: dict[str, Any] = {contender.name: contender.configuration for contender in contenders}
    for kind in ("decode", "prefill"):
        ratios = [a / b for a, b in zip(ours[kind], theirs[kind], strict=True)]
        result[kind] = {
            "ebbtide": summary(ours[kind]), "llama.cpp": summary(theirs[kind]), "ratio": summary(ratios),
        }  # fmt: skip
    for contender in contenders:
        contender.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--cache-dir", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options)
    result = race(options)
    if options.json:
        print(json.dumps(result, indent=1))
        return
    print(f"{Path(options.model).name}: {result['ebbtide']}; {result['llama.cpp']}; {options.pairs} pairs")
    for kind in ("decode", "prefill"):
        for who in ("ebbtide", "llama.cpp", "ratio"):
            row = result[kind][who]
            spread = f"quartiles {row['q1']:.2f} .. {row['q3']:.2f}"
            print(f"{kind:8} {who:10} median {row['median']:8.2f}   {spread}")


if __name__ == "__main__":
    main()
