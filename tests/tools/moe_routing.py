"""How a model's routers behave, by running a text and an answer through ebbtide's engine in this process.

    python tests/tools/moe_routing.py MODEL.gguf [--text FILE] [--prompt N] [--answer N] [--json]

Prints, as a mean over layers: the share of a token's experts that the token before it had chosen too, in the
text and in the answer; the share of experts that 90 % of all choices fall on; the same experts' share of
choices in text and answer (hot list); what a cache of each layer's experts would miss (LRU, a token being
one event).
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.engine.errors import EbbtideError
from tests.helpers.moe.figures import carry_over, hot_share, lru_miss_rate, share_for
from tests.helpers.moe.recording import I32, Recording

CAPACITIES = (0.25, 0.4, 0.5, 0.75)
PAGE = Path(__file__).parents[2] / "ARCHITECTURE.md"


def figures_of(prompt: list[I32], answer: list[I32], experts: int) -> dict[str, float]:
    """Means over layers."""
    whole = [np.concatenate(pair) for pair in zip(prompt, answer, strict=True)]

    def mean(figure: Callable[[I32, int], float], choices: list[I32]) -> float:
        return float(np.mean([figure(layer, experts) for layer in choices]))

    found = {
        "carry_over_prompt": mean(carry_over, prompt),
        "carry_over_answer": mean(carry_over, answer),
        "share_of_90_percent": mean(lambda layer, count: share_for(layer, count, 0.9), whole),
        "hot_quarter_prompt": mean(lambda layer, count: hot_share(layer, layer, count, 0.25), prompt),
        "hot_quarter_answer": float(
            np.mean([hot_share(a, b, experts, 0.25) for a, b in zip(prompt, answer, strict=True)])
        ),
    }
    for share in CAPACITIES:
        slots = max(round(share * experts), prompt[0].shape[1])
        rates = [lru_miss_rate(layer, experts, slots) for layer in whole]
        found[f"lru_miss_{share:.0%}"] = float(np.mean(rates))
    return found


def main(arguments: list[str] | None = None) -> None:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", type=Path, default=PAGE, help="a text file; else this project's own page")
    parser.add_argument("--prompt", type=int, default=400, help="tokens of it")
    parser.add_argument("--answer", type=int, default=300, help="tokens of answer, the likeliest each time")
    parser.add_argument("--ctx", type=int, default=1024)
    parser.add_argument("--budget", default="100%")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    try:
        at = Recording(options.model, budget=options.budget, ctx=options.ctx, threads=options.threads)
    except EbbtideError as error:
        sys.exit(f"moe_routing: {error}")
    encode = at.runtime.tokenizer.encode
    ids = encode(options.text.read_text("utf-8"), add_bos=False, parse_special=False)[: options.prompt]
    at.read(ids)
    prompt = at.taken()
    said = at.answer(options.answer)
    found = figures_of(prompt, at.taken(), at.runtime.spec.experts)
    found |= {"answer_tokens": len(said), "answer_distinct": len(set(said))}
    text = at.runtime.tokenizer.decode(said)
    at.close()
    if options.json:
        print(json.dumps(found | {"answer": text}))
        return
    for name, value in found.items():
        print(f"{name:22} {value:.3f}" if isinstance(value, float) else f"{name:22} {value}")
    print(f"{'answer':22} {text[:300]!r}")


if __name__ == "__main__":
    main()
