"""Texts are counted as the tokenizer makes them, beside an answer and without holding it up."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.client import EngineClient
from ebbtide.engine.counting import PIECE_CHARACTERS, REST_SHARE, Counter, pieces
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.loop import Engine
from ebbtide.engine.text import Tokenizer
from tests.engine.test_process import begin, wait_for, without_end
from tests.helpers.in_process import Script, load, of, run
from tests.helpers.tiny_models import write_tiny

CODE = Path(__file__).read_text("utf-8")
NUMBERS = "\n".join(f"{n * n * 7919:,} {n * 31} {n / 7:.6f}" for n in range(400))
TEXTS = ["", "a", "42", CODE, NUMBERS, NUMBERS.replace("\n", " "), "Größe 漢字 \ud800 \U0001f30a\n" * 200]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("models") / "deep.gguf"
    return without_end(write_tiny(model, "mixtral", layers=24, context=8192))


@pytest.fixture
def tokenizer(path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(open_gguf(path))


def count_when_loaded(count: m.Count, *paths: Path) -> list[m.Event]:
    """Load one model after the other; then count."""
    script = Script(*(load(path) for path in paths))
    events: list[m.Event] = []
    counting: list[m.Count] = []

    def emit(event: m.Event) -> None:
        events.append(event)
        if len(of(events, m.Loaded)) + len(of(events, m.Failed)) == len(paths) and not counting:
            counting.append(count)
            script.add(count)

    Engine(emit, script).run()
    return events


def test_counts_are_those_of_the_whole_text(path: Path, tokenizer: Tokenizer) -> None:
    (counted,) = of(count_when_loaded(m.Count(3, TEXTS), path), m.Counted)
    whole = [len(tokenizer.encode(text, add_bos=False, parse_special=False)) for text in TEXTS]
    assert counted == m.Counted(3, whole)
    assert whole[4] > len(NUMBERS) / 2, "digits are tokens here"


def test_a_chat_is_counted_as_it_would_be_read(path: Path) -> None:
    turns = [m.Turn("user", CODE[:500]), m.Turn("assistant", "so"), m.Turn("user", "why?")]
    script = Script(load(path, ctx=8192))
    events: list[m.Event] = []

    def emit(event: m.Event) -> None:
        events.append(event)
        if isinstance(event, m.Loaded):
            script.add(m.CountChat(1, turns))
            script.add(m.Generate(2, turns, max_tokens=1))

    Engine(emit, script).run()
    (counted,), (finished,) = of(events, m.Counted), of(events, m.Finished)
    assert 0 <= finished.usage.prompt - counted.tokens[0] < 20, "but for the words that begin an answer"


def test_a_chat_without_a_model_cannot_be_counted() -> None:
    (failed,) = of(run(m.CountChat(5, [m.Turn("user", "a")])), m.Failed)
    assert failed.request_id == 5


def test_control_tokens_in_a_text_are_text(tokenizer: Tokenizer) -> None:
    control = next(iter(tokenizer.controls._ids))
    plain = tokenizer.encode(control, add_bos=False, parse_special=False)
    assert tokenizer.count(control) == len(plain) > 1


def test_before_a_model_is_loaded_there_is_nothing_to_count_with() -> None:
    (failed,) = of(run(m.Count(5, ["a"])), m.Failed)
    assert (failed.request_id, failed.exit_code) == (5, 2) and "no model" in failed.message


@pytest.mark.parametrize("text", [*TEXTS, "x" * 5000, " " * 5000, "\n" * 5000])
def test_pieces_are_small_and_together_the_text(text: str) -> None:
    found = list(pieces(text))
    assert "".join(found) == text
    assert all(len(piece) <= PIECE_CHARACTERS for piece in found)


def test_while_an_answer_is_written_it_rests_after_each_piece(tokenizer: Tokenizer) -> None:
    pauses: list[float] = []
    counter = Counter(lambda event: None, is_busy=lambda: True, pause=pauses.append)
    counter.tokenizer = tokenizer
    counter.answer(m.Count(1, [NUMBERS]))
    assert len(pauses) == len(list(pieces(NUMBERS))) > 5 and min(pauses) > 0
    assert REST_SHARE >= 19, "a twentieth of the time at most"


@pytest.fixture
def client() -> Iterator[EngineClient]:
    client = EngineClient()
    client.start()
    yield client
    client.close()


def test_a_count_is_answered_in_the_middle_of_an_answer(client: EngineClient, path: Path) -> None:
    begin(client, path)
    client.send(m.Count(2, [NUMBERS]))
    counted = wait_for(client, m.Counted)
    assert counted.request_id == 2 and counted.tokens[0] > len(NUMBERS) / 2
    wait_for(client, m.Token)  # and it goes on
    client.send(m.Cancel(1))
    assert wait_for(client, m.Finished).finish_reason == "cancelled"


def test_a_count_of_a_forgotten_model_is_refused(path: Path) -> None:
    events = count_when_loaded(m.Count(7, ["a"]), path, Path("nowhere.gguf"))
    assert of(events, m.Counted) == []
    assert [failed.request_id for failed in of(events, m.Failed)] == [0, 7]
