"""Texts that the full screen and the plain chat share."""

from typing import NamedTuple

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.safe_text import safe_line
from ebbtide.app.sentences import in_two_lines, sentence, statement
from ebbtide.app.stages import of_total, stage_words
from ebbtide.engine.messages import Finished, Memory

HELP = """\
Enter   send                     Ctrl+C   stop the answer; at the prompt: quit

/new    begin a new chat         /pack    make a pack (paging from disk)
/model  NAME: another model      /ctx     TOKENS: another context
/budget SIZE: another budget     /quit    quit (also /bye, /exit, Ctrl+D)
/help   this text

@PATH in a question sends that file along; \"\"\" begins and ends a question of several lines."""
"""Of the plain chat; the screen makes its own from the registry of commands."""


class MemoryPart(NamedTuple):
    """One part of the budget: its name in `Memory` without `_bytes`, fill character, word, and size."""

    name: str
    fill: str
    word: str
    nbytes: int = 0


_PARTS = (
    ("static", "█", "dense"),
    ("expert", "▓", "experts"),
    ("kv", "▒", "KV"),
    ("transient", "░", "work"),
    ("free", "·", "free"),
)


def memory_parts(memory: Memory) -> list[MemoryPart]:
    """How the budget is split now, in the order in which it is drawn."""
    return [MemoryPart(name, fill, word, getattr(memory, f"{name}_bytes")) for name, fill, word in _PARTS]


def describe_end(finished: Finished) -> str:
    """A note for an answer that did not end by itself, or said nothing; empty for one that did."""
    notes = {
        "stop": "" if finished.text.strip() else "The model said nothing. Ask again, or in other words.",
        "length": "The answer reached its length limit.",
        "cancelled": "Stopped.",
        "context": "The context is full: the answer is cut off. /new begins a new chat.",
        "kv_integrity": "The answer was ended: its memory of the chat was damaged. Ask again.",
        "error": "The answer ended early because of an error. Ask again.",
    }
    note = notes[finished.finish_reason]
    return f"{note} {safe_line(sentence(finished.message))}".strip() if finished.message else note


def describe_error(session: ChatSession) -> str:
    """What went wrong and what to do, in two lines."""
    error = session.error
    if error is None:
        return ""
    if session.model.needs_pack:
        return f"{statement(str(error))}\nType /pack to make one now."
    return in_two_lines(error)


def describe_progress(session: ChatSession) -> str:
    """ "Loading 34% of 738 MiB, about 20 s left", or an empty string."""
    progress = session.model.progress
    if progress is None:
        return ""
    stage = stage_words(progress.stage)
    if progress.total <= 0:
        return stage
    share = f"{min(progress.done / progress.total, 1):.0%}"
    return f"{stage} {share}{of_total(progress.total)}{session.model.left}"


def share_of(session: ChatSession) -> str:
    """ "34%": the figure of `describe_progress` alone, or an empty string."""
    progress = session.model.progress
    return (
        f"{min(progress.done / progress.total, 1):.0%}" if progress is not None and progress.total > 0 else ""
    )
