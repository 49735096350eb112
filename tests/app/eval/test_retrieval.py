"""Passages that are to be found again: the questions, where their answers are, and when they say nothing."""

from pathlib import Path
from typing import Any

import pytest

from ebbtide.app.eval import finding
from ebbtide.app.eval.finding import find_again, finding_lines, finding_object
from ebbtide.app.eval.held_out import held_out_passages
from ebbtide.app.eval.retrieval import (
    COPIED_WORDS,
    PASSAGES,
    QUESTIONS,
    TEXTS,
    Text,
    answer_places,
    copying_text,
    groups,
    hits,
    is_luck,
    prefixes,
    retrieval_text,
    wilson,
)
from ebbtide.engine.errors import ContextError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.messages import ArmWidths, Scored
from ebbtide.engine.text import Tokenizer
from tests.helpers.app_types import Cli
from tests.helpers.vocab_files import byte_level_keys, sentencepiece_keys, write_vocab

HELD_OUT = held_out_passages()
GROUPS = groups(HELD_OUT)
AT = ArmWidths(1, b"\x05", 5.0, 50, 80, 160)


@pytest.mark.parametrize("seed", range(4))
def test_each_answer_can_be_read_in_the_text(seed: int) -> None:
    text = retrieval_text(GROUPS[seed], seed)
    answers = [text.text[start:end] for start, end in text.spans]
    assert len(answers) == QUESTIONS and len(GROUPS[seed]) == PASSAGES
    context, *asked = text.text.split('\nThe words "')
    for answer, question in zip(answers, asked, strict=True):
        passage = context.split(f"Passage{answer}: ")[1].split("\nPassage ")[0]
        assert question.split('" are from')[0] in passage
        assert question.endswith(f"Passage{answer}.")
    assert text == retrieval_text(GROUPS[seed], seed) != retrieval_text(GROUPS[seed], seed + 1)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_copied_is_in_the_text(seed: int) -> None:
    text, blind = (copying_text(GROUPS[seed], seed, with_context=shown) for shown in (True, False))
    for (start, end), (first, last) in zip(text.spans, blind.spans, strict=True):
        following = text.text[start:end]
        assert following.startswith(" ") and len(following.split()) == COPIED_WORDS
        assert following == blind.text[first:last]
        assert any(following in passage for passage in GROUPS[seed])
    assert text.text.endswith(blind.text) and blind.text.startswith("Passage: ")


def test_there_is_text_enough_for_many_questions() -> None:
    assert len(GROUPS) == TEXTS
    assert len({passage for group in GROUPS for passage in group}) == TEXTS * PASSAGES


class Asked:
    """A session whose tokens are characters. It knows `digits`, `letters` (where there is a context) or
    `nothing`; not the same with every plane (`full`) and at an arm's widths. `begins`: a token of its own is
    in front of each text.
    """

    def __init__(self, full: str, arm: str, ctx: int = 10**6, *, begins: bool = True) -> None:
        self.full, self.arm, self.ctx, self.begins = full, arm, ctx, begins
        self.asked: list[tuple[str, bytes]] = []

    def count(self, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    def score(self, text: str, *, at: ArmWidths | None = None) -> Scored:
        self.asked.append((text, at.widths if at is not None else b""))
        ids = [ord(letter) for letter in text][0 if self.begins else 1 :][: self.ctx - 1]
        known = self._known(ids, self.arm if at is not None else self.full, text)
        if at is None:
            return Scored(1, ids, [-1.0] * len(ids), known)
        full = self._known(ids, self.full, text)
        return Scored(1, ids, [-1.0] * len(ids), known, [-1.0] * len(ids), [0.0] * len(ids), full)

    @staticmethod
    def _known(ids: list[int], what: str, text: str) -> list[int]:
        wanted = {
            "digits": [chr(at).isdigit() for at in ids],
            "letters": ["Passage 1:" in text and not chr(at).isdigit() for at in ids],
            "nothing": [False for _ in ids],
        }
        return [at if is_known else -1 for at, is_known in zip(ids, wanted[what], strict=True)]


def found(asked: Asked, at: ArmWidths | None = AT) -> finding.Finding:
    session: Any = asked
    return find_again(session, HELD_OUT, at, lambda *_: None)


@pytest.mark.parametrize("begins", [True, False])
def test_numbers_that_are_known(begins: bool) -> None:
    """Whether or not the model's texts begin with a token of their own."""
    result = found(Asked("digits", "nothing", begins=begins))
    assert result.too_hard is None
    assert result.task == ("retrieval", QUESTIONS * TEXTS, 0, QUESTIONS * TEXTS, 1 / PASSAGES)
    assert found(Asked("digits", "digits", begins=begins)).task.right == QUESTIONS * TEXTS
    fields = finding_object(result)
    assert (fields["task"], fields["accuracy"], fields["full_accuracy"]) == ("retrieval", 0.0, 1.0)
    assert fields["above_chance"] and fields["too_hard"] is None
    assert len(finding_lines(result)) == 1


@pytest.mark.parametrize("begins", [True, False])
def test_an_easier_task_where_even_every_plane_finds_nothing(begins: bool) -> None:
    asked = Asked("letters", "nothing", begins=begins)
    result = found(asked)
    assert result.too_hard is not None and result.too_hard.full == 0
    task = result.task
    assert task.name == "copying" and task.right == 0 and task.chance == 0.0
    assert task.full > 0.9 * task.questions and not task.is_luck, "all but a few numbers among the words"
    assert "easier task" in finding_lines(result)[0] and len(finding_lines(result)) == 2
    assert finding_object(result)["too_hard"]["full_accuracy"] == 0
    blind = [widths for text, widths in asked.asked if "Passage 1:" not in text]
    assert blind == [b""] * TEXTS, "chance is asked of the model with every plane"


def test_a_model_that_can_do_neither_is_told_of() -> None:
    lines = finding_lines(found(Asked("nothing", "nothing")))
    assert len(lines) == 3 and "say nothing" in lines[-1]


def test_the_model_as_it_is_has_no_other_control() -> None:
    task = found(Asked("digits", "nothing"), None).task
    assert task.right == task.full == QUESTIONS * TEXTS


def test_a_context_that_is_too_short_is_told_of() -> None:
    with pytest.raises(ContextError) as refused:
        found(Asked("digits", "digits", ctx=500))
    assert "--ctx" in refused.value.hint


def test_places_of_answers() -> None:
    text = retrieval_text(GROUPS[0], 0)
    counts = [len(part) for part in prefixes(text)]
    ids = [ord(letter) for letter in text.text]
    only = [at if chr(at).isdigit() or chr(at) == " " else -1 for at in ids]
    whole = hits(Scored(1, ids, [], only), counts, last_only=False)
    last = hits(Scored(1, ids, [], only), counts, last_only=True)
    assert whole == (2 * QUESTIONS, 2 * QUESTIONS, None) and last == (QUESTIONS, QUESTIONS, None)


@pytest.mark.parametrize("kind", ["qwen2", "llama-bpe", "sentencepiece"])
def test_places_among_the_tokens_of_real_vocabularies(tmp_path: Path, kind: str) -> None:
    """This SentencePiece vocabulary has pieces that go beyond a word, in which no copied word ends."""
    keys = sentencepiece_keys() if kind == "sentencepiece" else byte_level_keys(kind)
    tokenizer = Tokenizer.from_gguf(open_gguf(write_vocab(tmp_path / "vocab.gguf", keys)))

    def tokens(text: str, *, add_bos: bool = False) -> list[int]:
        return tokenizer.encode(text, add_bos=add_bos, parse_special=False)

    def found(text: Text, *, last_only: bool) -> list[str]:
        ids = tokens(text.text, add_bos=True)[1:]
        counts = [len(tokens(part)) for part in prefixes(text)]
        return [tokenizer.decode([ids[at]]) for at in answer_places(len(ids), counts, last_only=last_only)]

    text = retrieval_text(GROUPS[0], 1)
    numbers = [text.text[start:end].strip() for start, end in text.spans]
    assert [number.strip() for number in found(text, last_only=True)] == numbers
    if kind != "sentencepiece":
        text = copying_text(GROUPS[0], 1)
        answers = [text.text[start:end] for start, end in text.spans]
        assert "".join(found(text, last_only=False)) == "".join(answers)


def test_luck() -> None:
    assert is_luck(0, 64, 1 / 6) and is_luck(17, 64, 1 / 6) and not is_luck(24, 64, 1 / 6)
    assert is_luck(0, 10, 0.0) and not is_luck(1, 10, 0.0) and is_luck(10, 10, 1.0)
    assert is_luck(5_000, 10_000, 0.5) and not is_luck(5_200, 10_000, 0.5)


def test_the_interval_of_a_share() -> None:
    """Wilson's own values for 1 of 10, and the ends."""
    assert wilson(1, 10) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    assert wilson(0, 10)[0] == 0.0 and wilson(10, 10)[1] == pytest.approx(1.0)


@pytest.mark.parametrize("begin", [0, 1])
def test_a_text_with_too_few_passages_is_refused(cli: Cli, model: str, tmp_path: Path, begin: int) -> None:
    path = tmp_path / "short"
    path.write_text("word " * 60 * begin + "end")
    done = cli("eval", model, "--text", str(path), "--task", "retrieval")
    assert done.code == 2 and f"retrieval takes {PASSAGES}" in done.err
