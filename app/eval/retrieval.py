"""Finding a passage again in a long text, and an easier task for models that cannot.

A text has some passages with numbers, then questions about them, each with its answer:

    Passage 1: ...
    Passage 2: ...
    The words "..." are from Passage 2.
    The words "..." are from Passage 1.

It is scored teacher-forced, so one text asks many questions; right is an answer whose number was the
likeliest token. Passages are drawn anew for every question, so that answers before tell nothing: chance is 1
in so many.

The easier task has the same passages and asks for words that follow words; its chance is how often they are
guessed where the passages are not there to be read.
"""

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Scored

PASSAGES = 6
"""In a text: numbers of one digit, which are one token or its end everywhere."""
PASSAGE_CHARS = 300
QUESTIONS = 8
"""About a text."""
QUOTED_WORDS = 8
COPIED_WORDS = 4
TEXTS = 8
SURE = 0.001
"""Luck that is less likely than this is none. A control that is hardly better than chance leaves no room for
an arm to be worse, so this is strict."""


class Text(NamedTuple):
    """`spans` are the answers: characters [start, end), from a word's own space on."""

    text: str
    spans: list[tuple[int, int]]


class Hits(NamedTuple):
    """Answer tokens that were the likeliest, of an arm and with every plane; `full` is None where that was
    not computed.
    """

    questions: int
    arm: int
    full: int | None


def snippets(passages: Sequence[str]) -> list[str]:
    """One line of about `PASSAGE_CHARS` of each passage that has so much."""
    lines = (" ".join(passage.split()) for passage in passages)
    return [line[:PASSAGE_CHARS].rsplit(" ", 1)[0] for line in lines if len(line) >= PASSAGE_CHARS]


def groups(passages: Sequence[str]) -> list[list[str]]:
    """`PASSAGES` snippets for each of up to `TEXTS` texts. Raises UsageError where even one has too few."""
    found = snippets(passages)
    count = min(len(found) // PASSAGES, TEXTS)
    if not count:
        raise UsageError(
            f"The text has {len(found)} passages of {PASSAGE_CHARS} characters; retrieval takes {PASSAGES}.",
            hint="Give a longer text, or leave --text out.",
        )
    return [found[at * PASSAGES : (at + 1) * PASSAGES] for at in range(count)]


def retrieval_text(group: Sequence[str], seed: int) -> Text:
    """Questions for the numbers of passages."""
    chooser, text, spans = random.Random(seed), _context(group), []
    for _ in range(QUESTIONS):
        number = chooser.randrange(len(group))
        quote, _ = _quote(group[number], chooser)
        text += f'\nThe words "{quote}" are from Passage'
        answer = f" {number + 1}"
        spans.append((len(text), len(text) + len(answer)))
        text += f"{answer}."
    return Text(text, spans)


def copying_text(group: Sequence[str], seed: int, *, with_context: bool = True) -> Text:
    """Questions for the words that follow."""
    chooser, text, spans = random.Random(seed), _context(group) if with_context else "", []
    for _ in range(QUESTIONS):
        quote, following = _quote(group[chooser.randrange(len(group))], chooser)
        text += f"\nPassage: {quote}"
        spans.append((len(text), len(text) + len(following) + 1))
        text += f" {following}"
    return Text(text.lstrip("\n"), spans if with_context else [(start - 1, end - 1) for start, end in spans])


def _context(group: Sequence[str]) -> str:
    return "\n".join(f"Passage {number}: {passage}" for number, passage in enumerate(group, 1)) + "\n"


def _quote(passage: str, chooser: random.Random) -> tuple[str, str]:
    """Some words from anywhere in a passage, and those behind them."""
    words = passage.split()
    first = chooser.randrange(max(len(words) - QUOTED_WORDS - COPIED_WORDS, 0) + 1)
    middle = first + QUOTED_WORDS
    return " ".join(words[first:middle]), " ".join(words[middle : middle + COPIED_WORDS])


def prefixes(text: Text) -> list[str]:
    """What has to be counted in tokens to find the answers among them: text up to each answer's two ends, and
    the whole.
    """
    return [text.text[:end] for span in text.spans for end in span] + [text.text]


def answer_places(tokens: int, counts: Sequence[int], *, last_only: bool) -> list[int]:
    """Which of the scored tokens are answers'. `tokens` were scored; `counts` are tokens of `prefixes`. Of
    each answer all tokens count, or the last one, which has the number: before it may be a space.
    """
    *ends, total = counts
    # Tokens in front of the text, less the first, which has no prediction.
    before = tokens - total
    places: list[int] = []
    for start, end in zip(ends[::2], ends[1::2], strict=True):
        inside = range(max(start + before, 0), end + before)
        places.extend(inside[-1:] if last_only else inside)
    return places


def hits(scored: Scored, counts: Sequence[int], *, last_only: bool) -> Hits:
    """How many answers are right; see `answer_places`."""
    places = answer_places(len(scored.token_ids), counts, last_only=last_only)
    arm = sum(scored.top1[at] == scored.token_ids[at] for at in places)
    full = None
    if scored.full_top1:
        full = sum(scored.full_top1[at] == scored.token_ids[at] for at in places)
    return Hits(len(places), arm, full)


def all_hits(parts: Sequence[Hits]) -> Hits:
    """Of several texts."""
    full = None if any(part.full is None for part in parts) else sum(part.full or 0 for part in parts)
    return Hits(sum(part.questions for part in parts), sum(part.arm for part in parts), full)


def is_luck(right: int, questions: int, chance: float) -> bool:
    """Whether so many right answers, or more, are likelier than `SURE` by `chance` alone (binomial)."""
    if not 0 < chance < 1:
        return right <= chance * questions
    likely = sum(
        math.exp(
            math.lgamma(questions + 1)
            - math.lgamma(count + 1)
            - math.lgamma(questions - count + 1)
            + count * math.log(chance)
            + (questions - count) * math.log1p(-chance)
        )
        for count in range(right, questions + 1)
    )
    return likely > SURE


def wilson(right: int, questions: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson, 1927)."""
    z = 1.959964
    share, extra = right / questions, z * z / questions
    middle = (share + extra / 2) / (1 + extra)
    half = z * math.sqrt(share * (1 - share) / questions + extra / questions / 4) / (1 + extra)
    return max(middle - half, 0.0), min(middle + half, 1.0)
