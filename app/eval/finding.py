"""`ebbtide eval --task retrieval`: asks the model, and whether the task says anything about it at all."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ebbtide.app.eval.retrieval import (
    PASSAGES,
    Hits,
    Text,
    all_hits,
    copying_text,
    groups,
    hits,
    is_luck,
    prefixes,
    retrieval_text,
    wilson,
)
from ebbtide.app.session import Session
from ebbtide.engine.errors import ContextError
from ebbtide.engine.messages import ArmWidths, Scored

Progress = Callable[[str, int, int], None]


class Task(NamedTuple):
    """One of the two tasks, answered. `full` are the right answers with every plane: the control."""

    name: str
    questions: int
    right: int
    full: int
    chance: float

    @property
    def is_luck(self) -> bool:
        """The control is no better than chance: then the task says nothing about an arm."""
        return is_luck(self.full, self.questions, self.chance)


class Finding(NamedTuple):
    """The task that counts, and retrieval itself where that was too hard. `scores` are of the former."""

    task: Task
    too_hard: Task | None
    scores: list[Scored]


def find_again(
    session: Session, passages: Sequence[str], at: ArmWidths | None, progress: Progress
) -> Finding:
    """Ask about passages of a text; where the model cannot answer even with every plane, an easier task.

    Raises UsageError for a text with too few passages, ContextError for a context that is too short, and
    EbbtideError of every kind.
    """
    asked = groups(passages)
    texts = [retrieval_text(group, seed) for seed, group in enumerate(asked)]
    scores, found = _ask(session, texts, at, progress, last_only=True)
    retrieval = _task("retrieval", found, 1 / PASSAGES)
    if not retrieval.is_luck:
        return Finding(retrieval, None, scores)
    blind = [copying_text(group, seed, with_context=False) for seed, group in enumerate(asked)]
    _, guessed = _ask(session, blind, None, progress)
    texts = [copying_text(group, seed) for seed, group in enumerate(asked)]
    scores, found = _ask(session, texts, at, progress)
    copying = _task("copying", found, guessed.arm / guessed.questions)
    return Finding(copying, retrieval, scores)


def _task(name: str, found: Hits, chance: float) -> Task:
    full = found.arm if found.full is None else found.full
    return Task(name, found.questions, found.arm, full, chance)


def _ask(
    session: Session,
    texts: Sequence[Text],
    at: ArmWidths | None,
    progress: Progress,
    *,
    last_only: bool = False,
) -> tuple[list[Scored], Hits]:
    scores, parts = [], []
    for done, text in enumerate(texts):
        progress("asking", done, len(texts))
        counts = session.count(prefixes(text))
        scored = session.score(text.text, at=at)
        if len(scored.token_ids) < counts[-1] - 1:
            raise ContextError(
                f"The questions take {counts[-1]:,} tokens, more than the context.",
                hint=f"Give --ctx {counts[-1] + 1} or more.",
            )
        scores.append(scored)
        parts.append(hits(scored, counts, last_only=last_only))
    return scores, all_hits(parts)


def finding_object(finding: Finding | None) -> dict[str, Any]:
    """Further fields of the JSON object."""
    if finding is None:
        return {}
    return {
        "task": finding.task.name,
        **_fields(finding.task),
        "too_hard": None if finding.too_hard is None else _fields(finding.too_hard),
    }


def _fields(task: Task) -> dict[str, Any]:
    return {
        "questions": task.questions,
        "accuracy": task.right / task.questions,
        "accuracy_interval": wilson(task.right, task.questions),
        "full_accuracy": task.full / task.questions,
        "chance": task.chance,
        "above_chance": not task.is_luck,
    }


def finding_lines(finding: Finding | None) -> list[str]:
    """The same for people."""
    if finding is None:
        return []
    lines = []
    if finding.too_hard is not None:
        lines.append(
            f"{_words(finding.too_hard)}: with every plane it is hardly better than chance, so an easier task"
        )
    lines.append(_words(finding.task))
    if finding.task.is_luck:
        lines.append("This model does neither with every plane: the figures say nothing about an arm")
    return lines


def _words(task: Task) -> str:
    low, high = wilson(task.right, task.questions)
    share, full = task.right / task.questions, task.full / task.questions
    return (
        f"{task.name} {share:.1%} of {task.questions:,} answers (95% interval {low:.1%} to {high:.1%}), "
        f"{full:.1%} with every plane, {task.chance:.1%} by chance"
    )
