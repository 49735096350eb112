"""All arms on the same held-out passages at equal bytes, each against the arm paged, passage by passage.

    python tests/tools/arms_table.py [MODEL] [--bits 5,5.5,6] [--tokens 4096] [--arms fp16,uniform,...]

An arm is its name, or -SIGNAL for paged without it. A row has the arm's perplexity, KL and agreement with
every plane, bytes of experts as a share of 16 bits, and what the arm paged changes of its perplexity and KL,
with the 95 % bootstrap interval over passages that both scored. `full` in the last line is every plane.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from ebbtide.app.commands.loading import open_session, prepare_load
from ebbtide.app.compare.statistics import bootstrap
from ebbtide.app.context import AppContext
from ebbtide.app.eval.held_out import held_out_passages
from ebbtide.app.eval.passages import PASSAGE_CHARS
from ebbtide.app.eval.summary import Interval, Loss, summary_of
from ebbtide.app.options import EngineFlags
from ebbtide.app.session import Session
from ebbtide.engine.messages import Arm, ArmName, ArmWidths, Scored, Signal

ARMS = "fp16,uniform,static,dp,paged,-sensitivity,-routing,-residual,-movement"
ROW = "{:14} {:>5} {:>6} {:>8} {:>7} {:>6}  {:30} {}"


def scores_of(session: Session, passages: Sequence[str], at: ArmWidths, most: int) -> list[Scored]:
    scores: list[Scored] = []
    for passage in passages:
        left = most - sum(len(scored.logprobs) for scored in scores)
        if left <= 0:
            break
        scores.append(session.score(passage, max_tokens=left + 1, at=at))
    return scores


def wish_of(arm: str, bits: float, cache_dir: str) -> Arm:
    if arm.startswith("-"):
        return Arm(0, "paged", bits, without=cast(Signal, arm[1:]), cache_dir=cache_dir)
    return Arm(0, cast(ArmName, arm), 0.0 if arm == "fp16" else bits, cache_dir=cache_dir)


def change(losses: Sequence[Loss]) -> float:
    """Of paged (`arm`) against another (`full`), as a share: of their sums' exponentials a token."""
    return math.expm1(sum(loss.arm - loss.full for loss in losses) / sum(loss.tokens for loss in losses))


def share(losses: Sequence[Loss]) -> float:
    """Of paged (`arm`) against another (`full`), as a share of the sums."""
    return sum(loss.arm for loss in losses) / sum(loss.full for loss in losses) - 1


def words(figure: float, interval: Interval | None) -> str:
    between = "" if interval is None else " ({:+.2%} to {:+.2%})".format(*interval)
    return f"{figure:+.2%}{between}"


def row_of(arm: str, at: ArmWidths, scores: Sequence[Scored], paged: Sequence[Scored]) -> str:
    found = summary_of(scores)
    assert found.kl is not None and found.agreement is not None
    figures = (
        *(f"{at.average_bits if found.read_bits is None else found.read_bits:.2f}",),
        f"{at.expert_bytes / at.fp16_bytes:.1%}",
        *(f"{found.perplexity:.4f}", f"{found.kl:.4f}", f"{found.agreement:.1%}"),
    )
    if scores is paged:
        return ROW.format(arm, *figures, "", "").rstrip()
    pairs = list(zip(paged, scores, strict=True))
    loss = [Loss(len(ours.logprobs), -sum(ours.logprobs), -sum(theirs.logprobs)) for ours, theirs in pairs]
    nats = [Loss(len(ours.kl), sum(ours.kl), sum(theirs.kl)) for ours, theirs in pairs]
    of_kl = "" if arm == "fp16" else words(share(nats), bootstrap(nats, share))
    return ROW.format(arm, *figures, words(change(loss), bootstrap(loss, change)), of_kl).rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", default="starter")
    parser.add_argument("--bits", default="5,5.5,6")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--passage", type=int, default=PASSAGE_CHARS, help="characters")
    parser.add_argument("--skip", type=int, default=0, help="so many passages at the beginning")
    parser.add_argument("--arms", default=ARMS)
    asked = parser.parse_args()
    context, passages = AppContext(), held_out_passages(asked.passage)[asked.skip :]
    load = prepare_load(context, asked.model, EngineFlags())
    arms = ["paged", *(arm for arm in asked.arms.split(",") if arm != "paged")]
    with open_session(context, load) as (session, _):
        for bits in map(float, asked.bits.split(",")):
            print(f"\n{bits:g} bits, {asked.tokens:,} tokens")
            heads = "arm", "bits", "of 16", "perpl.", "KL", "same", "paged: perplexity", "KL"
            print(ROW.format(*heads), flush=True)
            paged: list[Scored] = []
            for arm in arms:
                at = session.arm(wish_of(arm, bits, load.cache_dir))
                scores = scores_of(session, passages, at, asked.tokens)
                paged = paged or scores
                print(row_of(arm, at, scores, paged), flush=True)
            full = summary_of(paged).full_perplexity
            print(f"full {full:.4f}", flush=True)


if __name__ == "__main__":
    main()
