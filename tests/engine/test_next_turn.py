"""The next turn of a chat: what it reuses of the earlier ones, and that this changes no answer."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine import sampler
from ebbtide.engine.loop import Engine
from ebbtide.engine.memory.prefix_cache import PrefixCache
from tests.helpers.in_process import TEXT, Script, generate, load, of, run
from tests.helpers.tiny_models import write_tiny
from tests.helpers.tiny_vocab import byte_characters, tiny_vocab

END = 2
ANSWERS = ("the self is in the def, naïve", "def the(): return 日本", "in the end")


@pytest.fixture(scope="module")
def mixtral(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("models") / "mixtral.gguf", "mixtral", layers=3)


def byte_ids(text: str) -> list[int]:
    """One token a byte: decodes to `text`, which the tokenizer would spell with fewer."""
    characters, tokens = byte_characters(), tiny_vocab()[0]
    return [tokens.index(characters[byte]) for byte in text.encode()]


class Scripted:
    """In place of the sampler: says these ids, one after the other, whatever the model thinks."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = iter(ids)

    def __call__(self, logits: np.ndarray[Any, Any], *_: object, **__: object) -> int:
        return next(self._ids)


def chat(load: m.Load, count: int, *between: m.Command, max_tokens: int = 0) -> list[m.Finished]:
    """So many turns in one engine, each asked with the texts that the turns before it gave.

    between: sent after each answer, before the next question.
    """
    turns: list[m.Turn] = []
    answers: list[m.Finished] = []
    script = Script(load)

    def see(event: m.Event) -> None:
        if isinstance(event, m.Finished):
            answers.append(event)
            turns.append(m.Turn("assistant", event.text))
            for command in between:
                script.add(command)
        begins = isinstance(event, m.Loaded) and not answers
        if (begins or isinstance(event, m.Finished)) and len(answers) < count:
            turns.append(m.Turn("user", f"question {len(answers)}: " + TEXT[:60]))
            script.add(generate(len(answers) + 1, text=None, turns=[*turns], max_tokens=max_tokens))

    Engine(see, script).run()
    return answers


def scripted(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    ids = [token for answer in answers for token in [*byte_ids(answer), END]]
    monkeypatch.setattr(sampler, "sample", Scripted(ids))


def test_everything_before_the_new_question_is_reused(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, *ANSWERS)
    answers = chat(load(mixtral), 3)
    assert tuple(answer.text for answer in answers) == ANSWERS
    assert answers[0].usage.cached == 0
    for before, after in pairwise(answers):
        # All but the end token, which was sampled last and has no keys yet.
        assert after.usage.cached == before.usage.prompt + before.usage.completion - 1


def test_an_answer_that_was_cut_off_is_reused_too(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, *ANSWERS)
    first, second = chat(load(mixtral), 2, max_tokens=7)
    assert (first.finish_reason, first.text) == ("length", ANSWERS[0][:7])
    assert second.usage.cached == first.usage.prompt + first.usage.completion - 1


def test_a_cancelled_answer_is_reused_too(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, *ANSWERS)
    question = [m.Turn("user", "hm")]
    ask = generate(1, text=None, turns=question, max_tokens=0)
    first = of(run(load(mixtral), ask, cancel_after=30), m.Finished)[0]
    assert first.finish_reason == "cancelled" and 3 < len(first.text) < len(ANSWERS[0])
    scripted(monkeypatch, *ANSWERS)
    again = [*question, m.Turn("assistant", first.text), m.Turn("user", "go on")]
    more = generate(2, text=None, turns=again, max_tokens=3)
    second = of(run(load(mixtral), ask, more, cancel_after=30), m.Finished)[1]
    assert second.usage.cached == first.usage.prompt + first.usage.completion - 1


@pytest.mark.parametrize("forgetting", ["clear", "load"])
def test_answers_are_forgotten_with_the_keys(
    mixtral: Path, monkeypatch: pytest.MonkeyPatch, forgetting: str
) -> None:
    command = m.Clear() if forgetting == "clear" else load(mixtral)
    scripted(monkeypatch, *ANSWERS)
    _, remembered = chat(load(mixtral), 2)
    scripted(monkeypatch, *ANSWERS)
    _, plain = chat(load(mixtral), 2, command)
    assert plain.usage.cached == 0 and plain.usage.prompt < remembered.usage.prompt


def test_reused_keys_change_no_answer(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = chat(load(mixtral), 3, max_tokens=9)
    monkeypatch.setattr(PrefixCache, "insert", lambda *_: None)
    cold = chat(load(mixtral), 3, max_tokens=9)
    assert [answer.token_ids for answer in warm] == [answer.token_ids for answer in cold]
    assert warm[1].usage.cached > 0 and warm[2].usage.cached > warm[1].usage.cached
    assert all(answer.usage.cached == 0 for answer in cold)


def test_a_chat_is_the_same_at_every_budget_and_thread_count(mixtral: Path) -> None:
    chats = [
        chat(load(mixtral, budget=budget, threads=threads), 3, max_tokens=9)
        for budget, threads in (("100%", 2), ("40%", 1), ("25%", 2))
    ]
    seen = [[(answer.token_ids, answer.usage) for answer in answers] for answers in chats]
    assert seen[0] == seen[1] == seen[2]
