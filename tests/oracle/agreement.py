"""How far ebbtide and llama.cpp are from a float32 forward pass, and from each other, on one file and text.

    python tests/oracle/agreement.py MODEL.gguf TEXT [--windows 3 --tokens 400 --json]

Both lanes of ebbtide and llama.cpp at batch 512 and 1 are teacher-forced over the same token windows. Printed
per pair: mean and 99th percentile of KL(p || q) in nats, and top-1 agreement. llama.cpp runs in its own
process.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.messages import Load
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import teacher_forced
from ebbtide.engine.text import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]


def log_softmax(logits: F32) -> F64:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    return np.asarray(wide - np.log(np.exp(wide).sum(-1, keepdims=True)))


def compare(p: F32, q: F32) -> dict[str, float]:
    """KL(p || q) per token and top-1 agreement of logits [M, V], in blocks of rows to bound memory."""
    kls = []
    for start in range(0, len(p), 64):
        a, b = log_softmax(p[start : start + 64]), log_softmax(q[start : start + 64])
        kls.append((np.exp(a) * (a - b)).sum(-1))
    kl = np.concatenate(kls)
    return {
        "kl_mean": float(kl.mean()),
        "kl_p99": float(np.percentile(kl, 99)),
        "top1": float((p.argmax(-1) == q.argmax(-1)).mean()),
    }


def windows_of(model: Path, text: str, count: int, tokens: int) -> list[list[int]]:
    """Windows spread evenly over the text: one of many files is sampled from its start to its end."""
    ids = Tokenizer.from_gguf(open_gguf(model)).encode(text, add_bos=False, parse_special=False)
    if len(ids) < count * tokens:
        sys.exit(f"the text has {len(ids)} tokens, {count * tokens} are needed")
    starts = np.linspace(0, len(ids) - tokens, count).astype(int).tolist()
    return [ids[start : start + tokens] for start in starts]


def ours_once(runtime: Runtime, ids: list[int], lane: Lane) -> F32:
    rows: list[F32] = []
    teacher_forced(runtime, ids, lane, lambda: False, lambda at, logits: rows.append(logits.copy()))
    return np.concatenate(rows)


def ours(model: Path, windows: list[list[int]], budget: str) -> dict[str, F32]:

    found: dict[str, F32] = {}
    with tempfile.TemporaryDirectory() as folder:
        load = Load(str(model), budget=budget, ctx=max(map(len, windows)) + 8, pack="yes", cache_dir=folder)
        runtime = Runtime.load(load, lambda stage, done, total: None)
        for name, lane in (("ebbtide prefill", Lane.PREFILL), ("ebbtide decode", Lane.DECODE)):
            found[name] = np.concatenate([ours_once(runtime, ids, lane) for ids in windows])
        runtime.close()
    return found


def llama_worker(model: str, windows_file: str, batch: int, out: str) -> None:
    import llama_cpp

    windows = json.loads(Path(windows_file).read_text())
    llama = llama_cpp.Llama(
        model,
        n_ctx=max(map(len, windows)) + 8,
        n_batch=batch,
        n_ubatch=batch,
        logits_all=True,
        n_threads=2,
        n_threads_batch=2,
        verbose=False,
    )
    rows = []
    for ids in windows:
        llama.reset()
        llama.eval(ids)
        rows.append(np.array(llama.scores[: len(ids)], np.float32))
    np.save(out, np.concatenate(rows))


def llama(model: Path, windows: list[list[int]], batch: int) -> F32:
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "windows.json", Path(folder) / "logits.npy"
        file.write_text(json.dumps(windows))
        command = [sys.executable, __file__, str(model), "-", "--worker", str(file), str(batch), str(out)]
        subprocess.run(command, check=True)
        return np.asarray(np.load(out))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("text")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--budget", default="100%")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return llama_worker(str(options.model), options.worker[0], int(options.worker[1]), options.worker[2])
    from tests.helpers.float_reference import FloatReference

    text = Path(options.text).read_text(encoding="utf-8")
    windows = windows_of(options.model, text, options.windows, options.tokens)
    arms = ours(options.model, windows, options.budget)
    arms["llama.cpp batch 512"] = llama(options.model, windows, 512)
    arms["llama.cpp batch 1"] = llama(options.model, windows, 1)
    reference = FloatReference(options.model)
    arms["float32"] = np.concatenate([reference.logits(ids).numpy() for ids in windows])
    pairs = [("float32", name) for name in arms if name != "float32"]
    pairs += [
        ("llama.cpp batch 512", name) for name in arms if name not in ("float32", "llama.cpp batch 512")
    ]
    table = {f"{a} || {b}": compare(arms[a], arms[b]) for a, b in pairs}
    if options.json:
        print(json.dumps({"tokens": sum(map(len, windows)), "pairs": table}, indent=1))
        return
    print(f"{sum(map(len, windows))} tokens")
    for name, row in table.items():
        print(
            f"{name:45} KL mean {row['kl_mean']:.2e}  p99 {row['kl_p99']:.2e}  "
            f"top-1 {100 * row['top1']:.2f} %"
        )


if __name__ == "__main__":
    main()
