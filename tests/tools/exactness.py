"""Same tokens at every budget and thread count, each run inside a memory cgroup of its budget + an allowance.

    sudo python tests/tools/exactness.py MODEL [--allowance 350MiB] [--budgets 100%,60%,35%]

Prints a row per run: a hash of all token ids, hit rate, budget, the ledger's peak, the cgroup's own peak and
limit. Exits 1 if any two runs of a mode differ, a limit was reached by a kill, or a cgroup's peak touches
its limit.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

from ebbtide.app.memory_cgroup import MemoryCgroup, drop_caches
from ebbtide.engine.memory.budget import parse_bytes

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from tests.tools.cgroup import run_inside

MIB = 1 << 20
ROW = "{:8} {:>6} {:>7}  {:16} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9}  {}"


def run_once(
    options: argparse.Namespace, mode: str, budget: str, threads: int, limit_bytes: int
) -> tuple[dict[str, object], int, int]:
    """The run's own figures, the cgroup's peak, and the number of processes killed for memory."""
    command = [sys.executable, str(Path(__file__).parent / "chat_once.py"), options.model, "--budget", budget]
    command += ["--threads", str(threads), "--mode", mode, "--tokens", str(options.tokens)]
    command += ["--cache-dir", options.cache_dir, "--isa", options.isa]
    drop_caches()
    with MemoryCgroup(f"ebbtide-{os.getpid()}", limit_bytes) as group:
        outcome = run_inside(group, command)
    if outcome.returncode != 0:
        sys.exit(f"{mode} at {budget}: exit {outcome.returncode}, {outcome.killed} killed for memory")
    return json.loads(outcome.stdout), outcome.peak_bytes, outcome.killed


def row_of(
    mode: str, budget: str, threads: int, limit_bytes: int, result: dict[str, object], peak: int
) -> str:
    sizes = (
        result["budget_bytes"],
        result["ledger_peak_bytes"],
        peak,
        limit_bytes,
        result["process_peak_bytes"],
    )
    figures = (f"{int(str(size)) / MIB:.0f}" for size in sizes)
    hit_rate = f"{100 * float(str(result['hit_rate'])):.1f}"
    return ROW.format(mode, budget, threads, digest_of(result), hit_rate, *figures, result["cached"])


def digest_of(result: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(result["token_ids"]).encode()).hexdigest()[:16]


def run_mode(options: argparse.Namespace, mode: str, sizes: dict[str, int]) -> bool:
    """Run one mode at every budget and thread count; whether all is well."""
    good, digests = True, set()
    for budget, budget_bytes in sizes.items():
        for threads in map(int, options.threads.split(",")):
            limit = budget_bytes + parse_bytes(options.allowance)
            result, peak, killed = run_once(options, mode, budget, threads, limit)
            print(row_of(mode, budget, threads, limit, result, peak), flush=True)
            digests.add(digest_of(result))
            # The kernel never lets a charge exceed the limit: one that touches it was held back by reclaim.
            good &= killed == 0 and peak < limit
    return good and len(digests) == 1


def parse() -> argparse.Namespace:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("model")
    parser.add_argument("--budgets", default="100%,60%,35%")
    parser.add_argument("--modes", default="greedy,sampled,chat")
    parser.add_argument("--threads", default="2,1")
    parser.add_argument("--allowance", default="350MiB")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--cache-dir", default="")
    parser.add_argument("--isa", default="auto")
    return parser.parse_args()


def main() -> None:
    options = parse()
    # A first run tells each budget in bytes; those that count run inside budget + allowance.
    budgets = options.budgets.split(",")
    sizes = {b: int(str(run_once(options, "greedy", b, 2, 0)[0]["budget_bytes"])) for b in budgets}
    memory = ("budget", "ledger", "cgroup", "limit", "process")
    print(ROW.format("mode", "budget", "threads", "tokens' hash", "hits %", *memory, "cached"))
    print(ROW.format("", "", "", "", "", *["MiB"] * len(memory), ""))
    good = [run_mode(options, mode, sizes) for mode in options.modes.split(",")]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
