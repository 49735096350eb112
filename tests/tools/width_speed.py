"""What widths of their own cost in speed: decoding at mixed widths against one for all, at the same bytes.

    python tests/tools/width_speed.py MODEL.gguf [--bits 5] [--pairs 15] [--tokens 128] [--rows 1]

One model in this process with every plane in memory, both arms in turns, on the same text. `uniform` has its
widths and nothing else to do. `paged` does all that following costs while it decodes: it notes what each
token routes to, and plans and commits anew every 64 tokens, on the thread that decodes. `--rows 4` computes
four tokens of the text a pass, which asks of experts what four sequences would.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.app.compare.statistics import median_interval
from ebbtide.app.paths import find_paths
from ebbtide.engine.at_widths import hold_all, table_of, use_widths
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Forward
from ebbtide.engine.precision import arms
from ebbtide.engine.precision.byte_planner import BytePlanner
from ebbtide.engine.precision.costs import U8, Costs
from ebbtide.engine.precision.known_damage import known_damage
from ebbtide.engine.precision.library_text import library_texts
from ebbtide.engine.precision.paged_arm import EVERY_TOKENS
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.precision.routing_mass import block_weights
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import load

CONTEXT, MOST_TOKENS = 1024, 512
"""What KV does not take of its memory has room for copies of widths and pages."""


class Racer:
    """Reads one text again and again, `rows` tokens a pass, at the widths of an arm."""

    def __init__(self, path: Path, bits: float, rows: int) -> None:
        self._runtime = Runtime.load(load(path, ctx=CONTEXT, pack="no"), lambda *_: None)
        hold_all(self._runtime, MOST_TOKENS)
        table = table_of(self._runtime)
        self._costs, self._rows = Costs.of(table.layouts, table.experts), rows
        self._target = self._costs.target_bytes(bits)
        known = known_damage(self._runtime.source, str(find_paths().cache), 2, lambda *_: None)
        self._mass, self._unit = known.mass, known.unit
        self._planner = BytePlanner(known.damage, self._costs)
        self._uniform = arms.uniform(self._costs, bits)
        encode = self._runtime.tokenizer.encode
        (text, *_) = (part for parts in library_texts(held_out=True) for part in parts)
        ids = encode(text, add_bos=True, parse_special=False)
        self._ids = np.asarray(ids[:MOST_TOKENS], np.int32)
        assert isinstance(self._runtime.forward, Forward)
        self._forward = self._runtime.forward

    def seconds(self, *, follows: bool, tokens: int) -> float:
        """Of so many tokens behind the first 64, which are not counted."""
        runtime = self._runtime
        sequence = runtime.pool.new_sequence()
        routes = Routes(runtime.spec.layers, runtime.spec.experts, self._mass)
        self._forward.routes = routes if follows else None
        widths = self._planned(routes, None) if follows else self._uniform
        use_widths(runtime, widths)
        began = 0.0
        for at in range(0, EVERY_TOKENS + tokens, self._rows):
            if at == EVERY_TOKENS:
                began = time.perf_counter()
            if follows and at and at % EVERY_TOKENS == 0:
                widths = self._planned(routes, widths)
                use_widths(runtime, widths)
            part = self._ids[at : at + self._rows]
            runtime.pool.extend(sequence, part.size, runtime.fast.provenance(Lane.DECODE))
            rows = self._forward.hidden(part, at, runtime.kv_view(sequence), lambda: False)
            self._forward.logits(rows[-1:], runtime.logits[:1])
        taken = time.perf_counter() - began
        runtime.pool.release(sequence)
        return taken

    def _planned(self, routes: Routes, current: U8 | None) -> U8:
        routes.add_up()
        weights = block_weights(routes.routing.mass(), unit=self._unit)
        return self._planner.widths(weights, self._target, current)

    @property
    def bytes_of_both(self) -> tuple[int, int]:
        """Scales and planes of all experts: uniform, paged at first."""
        routes = Routes(self._runtime.spec.layers, self._runtime.spec.experts, self._mass)
        paged = self._planned(routes, None)
        return self._costs.expert_bytes(self._uniform), self._costs.expert_bytes(paged)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--bits", type=float, default=5.0)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rows", type=int, default=1)
    asked = parser.parse_args()
    if asked.tokens + EVERY_TOKENS > MOST_TOKENS:
        parser.error(f"no more than {MOST_TOKENS - EVERY_TOKENS} tokens")
    racer = Racer(asked.model, asked.bits, asked.rows)
    print("bytes of experts: uniform {:,}, paged {:,}".format(*racer.bytes_of_both))
    pairs = []
    for number in range(asked.pairs + 1):
        order = (False, True) if number % 2 else (True, False)
        taken = {follows: racer.seconds(follows=follows, tokens=asked.tokens) for follows in order}
        if number:  # the first one warms up
            pairs.append((asked.tokens / taken[False], asked.tokens / taken[True]))
    ratios = [paged / uniform for uniform, paged in pairs]
    low, high = median_interval(ratios)
    for name, speeds in zip(("uniform", "paged"), zip(*pairs, strict=True), strict=True):
        print(f"{name:8} {median(speeds):7.1f} tok/s ({min(speeds):.1f} to {max(speeds):.1f})")
    print(f"paged / uniform: {median(ratios):.3f} ({low:.3f} to {high:.3f}), {asked.rows} rows a pass")


if __name__ == "__main__":
    main()
