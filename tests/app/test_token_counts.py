"""What texts cost: the engine is asked once for each, one question at a time; until it answers, about."""

from ebbtide.app.token_counts import MOST_CHARACTERS, Cost, TokenCounts
from ebbtide.app.token_rate import TokenRate, usual_tokens
from ebbtide.engine.errors import ContextError
from ebbtide.engine.messages import Command, Count, CountChat, Counted, Failed, Turn

NUMBERS = "\n".join(str(n * 7919) for n in range(500))


class Engine:
    """Hears the questions; answers when a test says so."""

    def __init__(self) -> None:
        self.asked: list[Count] = []
        self.chats: list[CountChat] = []
        self.ids = 0
        self.counts = TokenCounts(self.hear, self.next_id, TokenRate())

    def hear(self, command: Command) -> None:
        assert isinstance(command, Count | CountChat)
        if isinstance(command, CountChat):
            self.chats.append(command)
        else:
            self.asked.append(command)

    def next_id(self) -> int:
        self.ids += 1
        return self.ids

    def answer(self, tokens: int) -> bool:
        count = self.asked[-1]
        return self.counts.take(Counted(count.request_id, [tokens] * len(count.texts)))


def test_without_a_model_it_is_an_estimate_and_nobody_is_asked() -> None:
    engine = Engine()
    assert engine.counts.cost([NUMBERS]) == Cost(usual_tokens(NUMBERS), is_estimate=True)
    assert engine.asked == []
    assert str(Cost(1204, is_estimate=True)) == "~1,204 tokens" and str(Cost(1)) == "1 token"


def test_a_count_takes_the_place_of_the_estimate() -> None:
    engine = Engine()
    engine.counts.begin()
    assert engine.counts.cost(["a b", NUMBERS]).is_estimate
    assert engine.answer(7)
    assert engine.counts.cost(["a b", NUMBERS, "a b", ""]) == Cost(21)
    assert len(engine.asked) == 1, "each text is counted once"


def test_one_question_at_a_time_the_newest_texts_next() -> None:
    engine = Engine()
    engine.counts.begin()
    for end in range(1, 100):
        engine.counts.cost([NUMBERS[:end]])
    assert [len(count.texts) for count in engine.asked] == [1]
    engine.answer(1)
    assert [len(count.texts) for count in engine.asked] == [1, 16]
    assert engine.asked[-1].texts[-1] == NUMBERS[:99]


def test_a_chat_is_counted_once_until_it_changes_or_the_model_does() -> None:
    engine = Engine()
    turns = [Turn("user", "a b")]

    def chat(*texts: str) -> int | None:
        return engine.counts.chat(texts, 2, lambda: turns)

    assert chat("a b") is None and engine.chats == [], "there is nobody to ask"
    engine.counts.begin()
    assert chat("a b") is None and chat("a b") is None
    assert engine.chats == [CountChat(1, turns)]
    assert engine.counts.take(Counted(1, [9])) and chat("a b") == 9
    assert chat("a b", "c") is None and len(engine.chats) == 2
    assert not engine.counts.take(Counted(1, [9])), "of a chat that is not shown any more"
    assert engine.counts.take(Failed(2, "refused", "Ask.", 3)) and chat("a b", "c") is None
    assert len(engine.chats) == 2, "what is refused is not asked again"
    engine.counts.begin()
    assert chat("a b") is None and len(engine.chats) == 3


def test_a_count_of_a_chat_betters_the_estimates() -> None:
    engine = Engine()
    engine.counts.begin()
    engine.counts.chat((NUMBERS,), 1000, list)
    engine.counts.take(Counted(1, [1500]))
    assert engine.counts.about(200).tokens == 300


def test_another_model_counts_anew() -> None:
    engine = Engine()
    engine.counts.begin()
    engine.counts.cost(["a"])
    engine.answer(3)
    engine.counts.begin()
    assert engine.counts.cost(["a"]).is_estimate and len(engine.asked) == 2
    assert not engine.counts.take(Counted(1, [3])), "an answer about the old one"
    engine.counts.end()
    assert engine.counts.cost(["b"]).is_estimate and len(engine.asked) == 2


def test_who_cannot_count_is_not_asked_again() -> None:
    engine = Engine()
    engine.counts.begin()
    engine.counts.cost(["a"])
    assert engine.counts.take(Failed(1, "no model is loaded", "Load a model first.", 2))
    assert engine.counts.cost(["a"]).is_estimate and len(engine.asked) == 1


def test_what_is_longer_than_any_context_is_not_counted() -> None:
    engine = Engine()
    engine.counts.begin()
    assert engine.counts.cost(["12 " * MOST_CHARACTERS]).tokens > MOST_CHARACTERS
    assert engine.asked == []


def test_what_no_frame_can_carry_stays_an_estimate_and_blocks_nothing() -> None:
    engine = Engine()

    def refuse(command: Command) -> None:
        engine.hear(command)
        raise ContextError("too long", hint="Shorten it.")

    counts = TokenCounts(refuse, engine.next_id, TokenRate())
    counts.begin()
    assert counts.cost(["a"]).is_estimate and counts.cost(["b"]).is_estimate
    assert [count.texts for count in engine.asked] == [["a"], ["b"]]
