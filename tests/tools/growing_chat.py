"""A conversation that grows from 500 to 7,000 tokens under a tight budget, and then a new one.

    sudo python tests/tools/growing_chat.py MODEL [--budget 70%] [--quality balanced] [--allowance 350MiB]

Each run is an engine in a memory cgroup of its budget and an allowance. `undisturbed` has memory for every
expert and all of the context; `tight` has not, and lowers widths as the context takes memory. Both are asked
the same, in turns, `--rounds` times. A row is a turn: context, KV, experts in memory and their mean width
afterwards, speed, and the longest wait between two tokens of its answer. The last rows are of a new chat:
what was free after `--rest` seconds, and a short question. Exits 1 where a request was refused, a process was
killed for memory or the cgroup's peak reached its limit.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.app.eval.report import average_bits
from ebbtide.app.memory_cgroup import MemoryCgroup, drop_caches
from ebbtide.app.paths import find_paths
from ebbtide.engine.client import EngineClient
from ebbtide.engine.memory.budget import parse_bytes
from ebbtide.engine.messages import Clear, Finished, Generate, Ledger, Load, Loaded, Memory, Token, Turn
from ebbtide.engine.precision.library_text import library_texts
from tests.tools.cgroup import run_inside
from tests.tools.chat_once import wait_for

MIB = 1 << 20
FIRST_CHARS, TURN_CHARS = 1_200, 1_100
ANSWER_TOKENS = 96
LAST_CONTEXT = 7_000
ROW = "{:12} {:>4} {:>7} {:>7} {:>8} {:>9} {:>6} {:>7} {:>9}"


def questions() -> Iterator[str]:
    """Parts of code that nobody was trained on, each with a request."""
    text = "\n".join(part for parts in library_texts(held_out=True) for part in parts)
    size, at = FIRST_CHARS, 0
    while at + size < len(text):
        yield f"Explain what this does, and what could go wrong:\n\n{text[at : at + size]}"
        at, size = at + size, TURN_CHARS


def answer(client: EngineClient, turns: list[Turn], tokens: int) -> tuple[Finished, float]:
    """An answer, and the longest wait between two of its tokens in seconds."""
    client.send(Generate(client.next_request_id(), turns=list(turns), max_tokens=tokens, ignore_end=True))
    longest, last = 0.0, None
    while True:
        event: Any = client.next_event(600)
        if isinstance(event, Finished):
            return event, longest
        if event is None or type(event).__name__ in ("Failed", "Died"):
            sys.exit(f"growing_chat: {event}")
        if isinstance(event, Token):
            now = time.perf_counter()
            longest, last = max(longest, now - (last or now)), now


def row_of(context: int, memory: Memory, tok_s: float, gap_s: float) -> dict[str, float]:
    resident = sum(count for width, count in memory.width_histogram.items() if width != "0")
    return {
        "context": context,
        "kv_bytes": memory.kv_bytes,
        "expert_bytes": memory.expert_bytes,
        "resident": resident,
        "blocks": sum(memory.width_histogram.values()),
        "bits": average_bits(memory) or 0.0,
        "tok_s": tok_s,
        "gap_s": gap_s,
    }


def child(options: argparse.Namespace) -> None:
    """One engine, the whole conversation; prints one JSON line."""
    client = EngineClient()
    client.start()
    common = {"ctx": 8192, "threads": options.threads, "pack": "yes", "cache_dir": options.cache_dir}
    client.send(Load(options.model, budget=options.budget, quality=options.quality, **common))
    loaded: Loaded = wait_for(client, Loaded)
    turns, rows, context = [], [], 0
    for question in questions():
        if context >= LAST_CONTEXT:
            break
        turns.append(Turn("user", question))
        done, gap = answer(client, turns, ANSWER_TOKENS)
        turns.append(Turn("assistant", done.text))
        context = done.usage.prompt + done.usage.completion
        rows.append(row_of(context, done.memory, done.timings.decode_tok_s, gap))
    client.send(Clear())
    memory, until = done.memory, time.perf_counter() + options.rest
    while (left := until - time.perf_counter()) > 0:
        event: Any = client.next_event(left)
        memory = event.memory if isinstance(event, Ledger) else memory
    rows.append(row_of(0, memory, 0.0, 0.0))
    done, gap = answer(client, [Turn("user", "Write a short function that adds two numbers.")], ANSWER_TOKENS)
    rows.append(
        row_of(done.usage.prompt + done.usage.completion, done.memory, done.timings.decode_tok_s, gap)
    )
    client.close()
    budget, peak = done.memory.budget_bytes, done.memory.peak_bytes
    print(
        json.dumps({"rows": rows, "budget": budget, "ledger": peak, "smallest": loaded.smallest_budget_bytes})
    )


def run_once(
    options: argparse.Namespace, budget: str, quality: str, limit: int
) -> tuple[dict[str, Any], int]:
    command = [sys.executable, __file__, options.model, "--child", "--budget", budget, "--quality", quality]
    command += ["--threads", str(options.threads), "--rest", str(options.rest)]
    command += ["--cache-dir", options.cache_dir]
    drop_caches()
    with MemoryCgroup(f"ebbtide-growing-{os.getpid()}", limit) as group:
        outcome = run_inside(group, command)
    if outcome.returncode or outcome.killed:
        sys.exit(f"{budget}: exit {outcome.returncode}, {outcome.killed} killed for memory")
    return json.loads(outcome.stdout), outcome.peak_bytes


def tell(name: str, result: dict[str, Any]) -> None:
    for number, row in enumerate(result["rows"], 1):
        print(
            ROW.format(
                *(name, number, f"{row['context']:,}", f"{row['kv_bytes'] / MIB:.0f}"),
                *(f"{row['expert_bytes'] / MIB:.0f}", f"{row['resident']}/{row['blocks']}"),
                *(f"{row['bits']:.2f}", f"{row['tok_s']:.1f}", f"{1000 * row['gap_s']:.0f}"),
            ),
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--budget", default="70%")
    parser.add_argument("--quality", default="balanced")
    parser.add_argument("--allowance", default="350MiB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rest", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache-dir", default=str(find_paths().cache))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    # A first run tells the budgets in bytes; those that count run inside budget + allowance.
    wishes = {"undisturbed": ("100%", "exact"), "tight": (options.budget, options.quality)}
    whole = run_once(options, *wishes["undisturbed"], 0)[0]
    most = whole["budget"] + 2 * max(row["kv_bytes"] for row in whole["rows"])
    wishes["undisturbed"] = f"{most / MIB:.0f}MiB", "exact"
    sizes = {name: int(run_once(options, *wish, 0)[0]["budget"]) for name, wish in wishes.items()}
    print(ROW.format("", "turn", "context", "KV MiB", "experts", "in memory", "bits", "tok/s", "gap ms"))
    gaps: dict[str, list[float]] = {name: [] for name in wishes}
    is_good = True
    for turn in range(options.rounds):
        for name in list(wishes)[:: -1 if turn % 2 else 1]:
            limit = sizes[name] + parse_bytes(options.allowance)
            result, peak = run_once(options, *wishes[name], limit)
            gaps[name].append(max(row["gap_s"] for row in result["rows"]))
            if turn == 0:
                tell(name, result)
            memory = (sizes[name], result["ledger"], peak, limit)
            figures = "budget {:.0f}, ledger {:.0f}, cgroup {:.0f} of {:.0f} MiB".format(
                *(x / MIB for x in memory)
            )
            print(f"{name}: longest gap {1000 * gaps[name][-1]:.0f} ms; {figures}", flush=True)
            is_good &= peak < limit and result["ledger"] <= sizes[name]
    for name, found in gaps.items():
        some = f"{1000 * min(found):.0f} to {1000 * max(found):.0f}"
        print(f"{name}: longest gap, median of {len(found)}: {1000 * median(found):.0f} ms ({some})")
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
