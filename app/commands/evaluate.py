"""`ebbtide eval`: perplexity over a text."""

import json
import math
from pathlib import Path

import click

from ebbtide.app.commands.loading import open_session, prepare_load
from ebbtide.app.console import ProgressPrinter, tell
from ebbtide.app.context import AppContext
from ebbtide.app.options import EngineFlags, bench_options, model_argument, refuse
from ebbtide.app.session import Session
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Generate, Memory, Scored

CHUNK_CHARS = 2048
"""About 500 to 700 tokens of English or code: each chunk is scored from a fresh start."""


@click.command("eval", short_help="Perplexity of a model over a text.")
@model_argument
@click.option("--text", "text_file", required=True, type=click.Path(path_type=Path), help="UTF-8.")
@click.option(
    "--arm", type=click.Choice(["fp16", "uniform", "static", "dp", "paged"]), default="paged", hidden=True
)
@click.option("--bits", hidden=True)
@click.option("--without", hidden=True)
@click.option("--task", type=click.Choice(["perplexity", "retrieval"]), default="perplexity", hidden=True)
@click.option("--json", "as_json", is_flag=True)
@bench_options
@click.pass_obj
def evaluate(
    context: AppContext,
    model: str | None,
    text_file: Path,
    arm: str,
    bits: str | None,
    without: str | None,
    task: str,
    as_json: bool,
    flags: EngineFlags,
) -> None:
    """Perplexity over a text, in chunks that are scored independently."""
    refuse("--arm", arm, {"paged"})
    refuse("--bits", bits, {None})
    refuse("--without", without, {None})
    refuse("--task", task, {"perplexity"})
    chunks = split_chunks(read_text(text_file))
    with open_session(context, prepare_load(context, model, flags)) as (session, _):
        scores = _score_all(session, chunks)
        memory = _memory_now(session)
    losses = [-value for scored in scores for value in scored.logprobs]
    if not losses:
        raise UsageError(f"{text_file} is too short to score", hint="Give at least a few words.")
    report(perplexity(losses), len(losses), memory, as_json)


def read_text(path: Path) -> str:
    """The file's text. Raises UsageError when it cannot be read."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="Give a UTF-8 text file with --text."
        ) from error


def split_chunks(text: str, size: int = CHUNK_CHARS) -> list[str]:
    """Pieces of about `size` characters, cut after a line or a word where there is one; nothing is lost."""
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = min(start + size, len(text))
        if end < len(text):
            cut = max(text.rfind("\n", start, end), text.rfind(" ", start, end))
            end = cut + 1 if cut > start else end
        pieces.append(text[start:end])
        start = end
    return _without_scraps([piece for piece in pieces if piece.strip()], size // 8)


def _without_scraps(pieces: list[str], least: int) -> list[str]:
    """A short last piece goes to the one before it: a single token cannot be scored."""
    if len(pieces) > 1 and len(pieces[-1]) < least:
        return [*pieces[:-2], pieces[-2] + pieces[-1]]
    return pieces


def _score_all(session: Session, chunks: list[str]) -> list[Scored]:
    scores: list[Scored] = []
    done, total = 0, sum(map(len, chunks))
    with ProgressPrinter() as progress:
        for chunk in chunks:
            progress.update("scoring", done, total)
            scores.append(session.score(chunk))
            done += len(chunk)
    return scores


def _memory_now(session: Session) -> Memory:
    """The ledger after the scoring; an answer of one token brings it."""
    return session.generate(Generate(session.next_request_id(), text="\n", max_tokens=1)).memory


def perplexity(losses: list[float]) -> float:
    """exp of the mean negative natural log-probability."""
    return math.exp(math.fsum(losses) / len(losses))


def average_bits(memory: Memory) -> float | None:
    """Mean width over the expert blocks that are in memory; None for a model without any."""
    blocks = {int(width): count for width, count in memory.width_histogram.items() if int(width) > 0}
    total = sum(blocks.values())
    return sum(width * count for width, count in blocks.items()) / total if total else None


def report(value: float, tokens: int, memory: Memory, as_json: bool) -> None:
    """`agreement` and `kl` compare with another arm; this version has only one, so they are null."""
    if as_json:
        print(
            json.dumps(
                {
                    "perplexity": value,
                    "agreement": None,
                    "kl": None,
                    "average_bits": average_bits(memory),
                    "expert_bytes": memory.expert_bytes,
                    "tokens": tokens,
                    "arm": "paged",
                }
            )
        )
    else:
        tell(f"perplexity {value:.4f} over {tokens:,} tokens")
