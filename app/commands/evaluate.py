"""`ebbtide eval`: perplexity over a text, of the model as it is or of an arm to compare with."""

import json
from pathlib import Path
from typing import cast

import click

from ebbtide.app.commands.loading import open_session, prepare_load
from ebbtide.app.console import ProgressPrinter, note, tell
from ebbtide.app.context import AppContext
from ebbtide.app.eval.arm_flags import PAGED, check_flags, sizes_of
from ebbtide.app.eval.finding import find_again, finding_lines, finding_object
from ebbtide.app.eval.held_out import held_out_passages
from ebbtide.app.eval.passages import PASSAGE_CHARS, read_text, split_passages
from ebbtide.app.eval.report import as_lines, as_object
from ebbtide.app.eval.summary import summary_of
from ebbtide.app.options import EngineFlags, Numbers, bench_options, model_argument
from ebbtide.app.session import Session
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Arm, ArmName, ArmWidths, Generate, Memory, Scored, Signal

TOKENS = 8192
"""Of the text that every machine has."""


@click.command("eval", short_help="Perplexity of a model over a text.")
@model_argument
@click.option(
    "--text",
    "text_file",
    type=click.Path(path_type=Path),
    help="UTF-8; left out, held-out code and documentation of Python's standard library.",
)
@click.option(
    "--tokens",
    type=click.IntRange(1),
    metavar="N",
    show_default=f"all of the text; {TOKENS} without --text",
    help="Score so many.",
)
@click.option(
    "--passage",
    type=click.IntRange(64),
    metavar="CHARS",
    show_default=str(PASSAGE_CHARS),
    help="Cut the text into passages of about so many characters.",
)
@click.option(
    "--arm",
    type=click.Choice(["fp16", "uniform", "static", "dp", PAGED]),
    default=PAGED,
    help="How the experts' widths are chosen: uniform, static, dp, paged (with --bits or --budget), or fp16.",
)
@click.option("--bits", type=Numbers(0), metavar="X", help="Planes per expert weight on average, 5.5 too.")
@click.option(
    "--without",
    type=click.Choice(["sensitivity", "routing", "residual", "movement"]),
    help="Of the arm paged: leave out what it goes by.",
)
@click.option(
    "--task",
    type=click.Choice(["perplexity", "retrieval"]),
    default="perplexity",
    show_default=True,
    help="retrieval: find a passage again in a long text.",
)
@click.option("--json", "as_json", is_flag=True)
@bench_options
@click.pass_obj
def evaluate(
    context: AppContext,
    model: str | None,
    text_file: Path | None,
    tokens: int | None,
    passage: int | None,
    arm: str,
    bits: float | None,
    without: str | None,
    task: str,
    as_json: bool,
    flags: EngineFlags,
) -> None:
    """Perplexity over a text, in passages that are scored independently, or how often one is found again.

    With an arm, all planes have to fit into memory; the text is computed at the arm's widths, as answers are,
    and compared with every plane at the same positions. --budget is then what the arm's experts would have,
    instead of --bits; without an arm, it is what the model has.
    """
    flags, size = sizes_of(flags, arm, bits)
    check_flags(arm, bits, size, without)
    for name, given in (("--tokens", tokens), ("--passage", passage)):
        if task == "retrieval" and given is not None:
            raise UsageError(f"{name} is for --task perplexity.", hint=f"Leave {name} out.")
    size_chars = passage or PASSAGE_CHARS
    passages = (
        held_out_passages(size_chars)
        if text_file is None
        else split_passages(read_text(text_file), size_chars)
    )
    most = tokens or (TOKENS if text_file is None else None)
    load = prepare_load(context, model, flags)
    with open_session(context, load) as (session, _):
        at = None
        if arm != PAGED or bits is not None or size:
            at = _choose(
                session,
                Arm(
                    0,
                    cast(ArmName, arm),
                    bits=bits or 0.0,
                    budget=size,
                    without=cast(Signal, without or ""),
                    cache_dir=load.cache_dir,
                ),
            )
        finding = None
        if task == "retrieval":
            with ProgressPrinter() as progress:
                finding = find_again(session, passages, at, progress.update)
            scores = finding.scores
        else:
            scores = _score_all(session, passages, most, at)
        where = at or _memory_now(session)
    if not any(scored.logprobs for scored in scores):
        raise UsageError("The text is too short to score.", hint="Give at least a few words.")
    found = summary_of(scores)
    if as_json:
        print(json.dumps(as_object(arm, found, where) | finding_object(finding)))
    else:
        tell("\n".join([*finding_lines(finding), *as_lines(arm, found, where)]))


def _choose(session: Session, wish: Arm) -> ArmWidths:
    with ProgressPrinter() as progress:
        at = session.arm(wish, progress.update)
    for notice in at.notices:
        note(notice)
    return at


def _score_all(session: Session, passages: list[str], most: int | None, at: ArmWidths | None) -> list[Scored]:
    """At most `most` tokens of the passages, in order; an arm's compared with every plane."""
    scores: list[Scored] = []
    done, total = 0, sum(map(len, passages))
    with ProgressPrinter() as progress:
        for passage in passages:
            scored = sum(len(scored.logprobs) for scored in scores)
            if most is not None and scored >= most:
                break
            progress.update("scoring", *((done, total) if most is None else (scored, most)))
            left = 0 if most is None else most - scored + 1
            scores.append(session.score(passage, max_tokens=left, at=at))
            done += len(passage)
    return scores


def _memory_now(session: Session) -> Memory:
    """The ledger after the scoring; an answer of one token brings it."""
    return session.generate(Generate(session.next_request_id(), text="\n", max_tokens=1)).memory
