"""`ebbtide run`: one answer on standard output."""

import json
import sys
from typing import Any

import click
import msgspec

from ebbtide.app.commands.loading import open_session, prepare_load, that_learns
from ebbtide.app.console import note
from ebbtide.app.context import AppContext
from ebbtide.app.options import (
    EngineFlags,
    SamplingFlags,
    engine_options,
    model_argument,
    refuse,
    sampling_options,
)
from ebbtide.app.piped import piped_text
from ebbtide.app.safe_text import safe, whole_text
from ebbtide.app.session import Session
from ebbtide.app.signals import STOPPING
from ebbtide.engine.errors import ContextError, EbbtideError, UsageError
from ebbtide.engine.messages import Finished, Generate, Memory, Turn


@click.command("run", short_help="Answer one prompt on standard output.")
@model_argument
@click.option("--model", "model_flag", help="The same as MODEL.")
@click.option("-p", "--prompt", help="The prompt; text that is piped in follows it, or is the prompt.")
@click.option("--system", help="A system message in front of the prompt.")
@click.option("--max-tokens", type=click.IntRange(0), default=0, help="0 = until the model ends its answer.")
@click.option("--stop", multiple=True, help="End the answer before this text; may be repeated.")
@click.option("--record", hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the text.")
@sampling_options
@engine_options
@click.pass_obj
def run(
    context: AppContext,
    model: str | None,
    model_flag: str | None,
    prompt: str | None,
    system: str | None,
    max_tokens: int,
    stop: tuple[str, ...],
    record: str | None,
    as_json: bool,
    choice: SamplingFlags,
    flags: EngineFlags,
) -> None:
    """Answer one prompt: the answer on standard output, everything else on standard error."""
    refuse("--record", record, {None})
    sampling = choice.sampling(context.settings)
    turns = [Turn("system", whole_text(system))] if system else []
    turns.append(Turn("user", _read_prompt(prompt)))
    wanted = model if model_flag is None else model_flag
    load = that_learns(context, prepare_load(context, wanted, flags))
    with open_session(context, load) as (session, _):
        request = Generate(
            session.next_request_id(),
            turns=turns,
            max_tokens=max_tokens,
            sampling=sampling,
            stop=[whole_text(text) for text in stop],
        )
        finished = _answer_json(session, request, load.emulate) if as_json else _answer_text(session, request)
    raise_for(finished)


def _read_prompt(prompt: str | None) -> str:
    """What -p says, then what is piped in; an empty line between them."""
    parts = [part for part in (whole_text(prompt or ""), piped_text()) if part.strip()]
    if not parts:
        raise UsageError("There is no prompt", hint="Give some text with -p TEXT, or through a pipe.")
    return "\n\n".join(parts)


def _answer_text(session: Session, request: Generate) -> Finished:
    """Write the answer as it comes."""
    printed_newline = True

    def show(text: str) -> None:
        nonlocal printed_newline
        clean = safe(text)
        if clean:
            sys.stdout.write(clean)
            sys.stdout.flush()
            printed_newline = clean.endswith("\n")

    try:
        return session.generate(request, show)
    finally:
        if not printed_newline:
            show("\n")


def _answer_json(session: Session, request: Generate, emulated: str) -> Finished:
    """Print one object at the end; a request that was interrupted or failed prints what it had."""
    try:
        finished = session.generate(request)
    except (*STOPPING, EbbtideError):
        if session.unfinished is not None:
            print(as_json_line(session.unfinished, emulated), flush=True)
        raise
    print(as_json_line(finished, emulated), flush=True)
    return finished


def as_json_line(finished: Finished, emulated: str = "") -> str:
    """The object of `run --json`; escapes keep control characters off the terminal.

    Figures of a card that was made to look smaller or slower say so: `emulated` is what --emulate was given.
    """
    return json.dumps(
        ({"emulated": emulated} if emulated else {})
        | {
            "text": finished.text,
            "token_ids": finished.token_ids,
            "finish_reason": finished.finish_reason,
            "usage": msgspec.to_builtins(finished.usage),
            "timings": msgspec.to_builtins(finished.timings),
            "memory": memory_object(finished.memory),
        }
    )


def memory_object(memory: Memory) -> dict[str, Any]:
    """The `memory` object that several commands print; `free_bytes` is the status line's alone."""
    fields: dict[str, Any] = msgspec.to_builtins(memory)
    return {name: value for name, value in fields.items() if name != "free_bytes"}


def raise_for(finished: Finished) -> None:
    """An answer that ended for a bad reason becomes the error with its exit code."""
    reason = finished.finish_reason
    if reason == "context":
        raise ContextError(
            finished.message or "the context is full, the answer is cut off",
            hint="Use a larger --ctx or ask for less.",
        )
    if reason in ("error", "kv_integrity"):
        message = finished.message or f"the answer ended early ({reason})"
        raise EbbtideError(message, hint="Ask again; if it happens again, run with --debug.")
    if finished.message:
        note(finished.message)
