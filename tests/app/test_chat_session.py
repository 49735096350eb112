"""A chat without a screen: what events change, and that no failure loses a turn silently."""

import pytest

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.exchange import AGAIN_TEMPERATURE
from ebbtide.app.phase import Phase
from ebbtide.app.token_counts import Cost
from ebbtide.engine.client import ClientEvent, Died, EngineClient
from ebbtide.engine.messages import (
    Cancel,
    Clear,
    Command,
    CountChat,
    Counted,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Ledger,
    Load,
    Loaded,
    Made,
    Memory,
    Progress,
    Snapshot,
    Timings,
    Token,
    Turn,
    Usage,
)


class RecordingClient(EngineClient):
    """Starts nothing; keeps what was sent."""

    def __init__(self) -> None:
        super().__init__(command=["nothing"])
        self.sent: list[Command] = []
        self.starts = 0

    def start(self) -> None:
        self.starts += 1

    def send(self, command: Command) -> None:
        self.sent.append(command)

    @property
    def last_request(self) -> Generate:
        return [command for command in self.sent if isinstance(command, Generate)][-1]


LOADED = Loaded("tiny", "llama", 4096, 100, 2, 8, "portable", 2, 0.5, Memory(budget_bytes=1))


def finished(request_id: int, text: str, reason: FinishReason = "stop") -> Finished:
    return Finished(request_id, text, [], reason, Usage(1, 0, 1), Timings(), Memory())


def phase_of(session: ChatSession) -> Phase:
    """A call, so that the type checker does not take the phase for settled after one look."""
    return session.phase


def feed(session: ChatSession, *events: ClientEvent) -> None:
    for event in events:
        session.handle(event)


@pytest.fixture
def client() -> RecordingClient:
    return RecordingClient()


@pytest.fixture
def session(client: RecordingClient) -> ChatSession:
    session = ChatSession(client, Load("/tiny.gguf"), system="be brief")
    session.start()
    return session


def test_a_turn(session: ChatSession, client: RecordingClient) -> None:
    feed(session, Progress("loading", 1, 2), LOADED)
    assert phase_of(session) is Phase.READY and session.model.progress is None
    session.ask("hi")
    assert client.last_request.turns == [Turn("system", "be brief"), Turn("user", "hi")]
    assert phase_of(session) is Phase.READING and session.busy
    feed(session, Token(1, "hel", [1]), Token(1, "lo", [2]))
    assert phase_of(session) is Phase.ANSWERING and session.answer.text == "hello"
    feed(session, finished(1, "hello"))
    assert session.turns == [Turn("user", "hi"), Turn("assistant", "hello")]
    assert phase_of(session) is Phase.READY and not session.busy


def test_a_question_waits_for_the_model(session: ChatSession, client: RecordingClient) -> None:
    session.ask("hi")
    assert session.busy and not any(isinstance(command, Generate) for command in client.sent)
    feed(session, LOADED)
    assert client.last_request.turns[-1] == Turn("user", "hi")


def test_a_waiting_question_can_be_taken_back(session: ChatSession, client: RecordingClient) -> None:
    session.ask("hi")
    session.stop()
    feed(session, LOADED)
    assert session.turns == [] and not session.busy
    assert not any(isinstance(command, Generate) for command in client.sent)


def test_stop_keeps_what_was_said(session: ChatSession, client: RecordingClient) -> None:
    feed(session, LOADED)
    session.ask("hi")
    feed(session, Token(1, "hel", [1]))
    session.stop()
    assert client.sent[-1] == Cancel(1) and phase_of(session) is Phase.STOPPING
    feed(session, finished(1, "hel", "cancelled"))
    assert session.turns[-1] == Turn("assistant", "hel") and phase_of(session) is Phase.READY


def test_a_question_stopped_before_any_word_leaves_no_turn(session: ChatSession) -> None:
    feed(session, LOADED)
    session.ask("hi")
    session.stop()
    feed(session, finished(1, "", "cancelled"))
    assert session.turns == []


def test_death_keeps_the_partial_answer_and_the_next_question_reloads(
    session: ChatSession, client: RecordingClient
) -> None:
    feed(session, LOADED)
    session.ask("hi")
    feed(session, Token(1, "hel", [1]), Died(-9, "was killed by SIGKILL"))
    assert phase_of(session) is Phase.DIED and not session.busy
    assert session.turns == [Turn("user", "hi"), Turn("assistant", "hel")]
    assert session.error is not None and session.error.exit_code == 7
    session.ask("again")
    assert client.starts == 2 and phase_of(session) is Phase.LOADING
    feed(session, LOADED)
    assert [turn.content for turn in client.last_request.turns] == ["be brief", "hi", "hel", "again"]
    assert client.last_request.request_id == 2 and session.error is None


def test_a_failed_request_keeps_the_chat(session: ChatSession) -> None:
    feed(session, LOADED)
    session.ask("far too long")
    feed(session, Failed(1, "too long", "Use a larger --ctx.", 5))
    assert phase_of(session) is Phase.READY and session.turns == []
    assert session.error is not None and session.error.exit_code == 5


def test_a_failed_load_and_another_try(session: ChatSession, client: RecordingClient) -> None:
    session.ask("hi")
    feed(session, Failed(0, "does not fit", "Give more.", 4, needs_pack=True))
    assert phase_of(session) is Phase.FAILED and session.model.needs_pack and session.turns == []
    session.reload_with_pack()
    assert isinstance(client.sent[-1], Load) and client.sent[-1].pack == "yes"


def test_a_new_chat_forgets_and_ignores_the_old_answer(session: ChatSession, client: RecordingClient) -> None:
    feed(session, LOADED)
    session.ask("hi")
    feed(session, Token(1, "old", [1]))
    session.clear()
    assert Cancel(1) in client.sent and Clear() not in client.sent
    assert not session.handle(Token(1, " more", [2])) and not session.handle(finished(1, "old more"))
    assert session.turns == [] and phase_of(session) is Phase.READY


@pytest.mark.parametrize("quality", ["exact", "balanced"])
def test_a_new_chat_gives_memory_back_where_precision_depends_on_it(
    quality: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordingClient, "running", True)
    client = RecordingClient()
    session = ChatSession(client, Load("/tiny.gguf", quality=quality))
    session.start()
    feed(session, LOADED)
    session.clear()
    assert (Clear() in client.sent) == (quality == "balanced")


def test_telemetry(session: ChatSession) -> None:
    assert session.memory is None
    feed(session, LOADED)
    assert session.memory == LOADED.memory
    session.ask("hi")
    feed(session, Snapshot(1, "decode", 1, 1, 3, 4, 4096, 5.0, 6.0, Memory(budget_bytes=7)))
    assert session.memory == Memory(budget_bytes=7)


def read(request_id: int, context_used: int) -> Snapshot:
    return Snapshot(request_id, "decode", 1, 1, 3, context_used, 4096, 5.0, 6.0, Memory(budget_bytes=7))


def test_a_question_that_was_taken_back_is_in_no_context(session: ChatSession) -> None:
    feed(session, LOADED)
    session.ask("long question")
    feed(session, read(1, 3374))
    assert session.context_used == 3374
    session.stop()
    feed(session, finished(1, "", "cancelled"))
    assert session.turns == [] and session.context_used == 0


@pytest.mark.parametrize("reason", ["cancelled", "length"])
def test_an_answer_that_was_cut_is_as_long_as_after_it_was_opened_again(
    session: ChatSession, client: RecordingClient, reason: FinishReason, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordingClient, "running", True)
    feed(session, LOADED)
    session.ask("hi")
    feed(session, read(1, 30), finished(1, "hello", reason))
    assert session.context_used == 30, "until the engine has counted the end that the template adds"
    counts = [command for command in client.sent if isinstance(command, CountChat)]
    assert len(counts) == 1
    feed(session, Counted(counts[0].request_id, [32]))
    assert session.context == Cost(32)


def test_what_is_left_out_leaves_the_context_at_once_and_comes_back(session: ChatSession) -> None:
    feed(session, LOADED)
    for request_id in (1, 2):
        session.ask("hi")
        feed(session, read(request_id, 900 * request_id), finished(request_id, "hello"))
    assert session.context_used == 1800
    session.chat.leave_out_oldest(2)
    assert session.snapshot is None and 0 < session.context_used < 900
    session.chat.send_all()
    assert session.context_used == 1800


def test_the_fetcher_comes_first(client: RecordingClient) -> None:
    fetcher = RecordingClient()
    session = ChatSession(
        client, Load("/tiny.gguf"), find_fetcher=lambda load: fetcher if load.path == "/tiny.gguf" else None
    )
    session.start()
    assert (fetcher.starts, client.starts, session.phase) == (1, 0, Phase.FETCHING)
    session.handle_fetcher(Progress("fetching", 1, 2))
    assert session.model.progress is not None
    session.handle_fetcher(Made("/tiny.gguf"))
    assert client.starts == 1 and phase_of(session) is Phase.LOADING
    session.handle_fetcher(Died(0, "exited with code 0"))
    assert phase_of(session) is Phase.LOADING


@pytest.mark.parametrize("end", [Failed(0, "no network", "Connect.", 6), Died(1, "exited with code 1")])
def test_a_failed_fetch_is_tried_again_with_the_next_question(
    client: RecordingClient, end: ClientEvent
) -> None:
    fetcher = RecordingClient()
    session = ChatSession(
        client, Load("/tiny.gguf"), find_fetcher=lambda load: fetcher if load.path == "/tiny.gguf" else None
    )
    session.start()
    session.handle_fetcher(end)
    assert phase_of(session) is Phase.FAILED and session.error is not None
    session.ask("hi")
    assert fetcher.starts == 2 and phase_of(session) is Phase.FETCHING


def test_the_same_question_again_is_drawn_anew(session: ChatSession, client: RecordingClient) -> None:
    feed(session, LOADED)
    question = session.ask("name a colour")
    for times, (temperature, seed) in enumerate([(0.0, 0), (AGAIN_TEMPERATURE, 1), (AGAIN_TEMPERATURE, 2)]):
        request = client.last_request
        assert (request.sampling.temperature, request.sampling.seed) == (temperature, seed), times
        feed(session, finished(request.request_id, f"blue {times}"))
        session.regenerate(question)
    feed(session, finished(client.last_request.request_id, "blue 3"))
    session.ask("and now?")
    assert client.last_request.sampling == session.sampling, "only the repetition is drawn anew"


def test_a_reload_that_fails_goes_back_to_what_was_loaded(
    session: ChatSession, client: RecordingClient
) -> None:
    feed(session, LOADED)
    before = session.load
    session.reload(Load("/tiny.gguf", budget="1MiB"))
    session.ask("still there?")
    feed(session, Failed(0, "a budget of 1 MiB is too small", "Give 150 MiB.", 4))
    assert session.load == before and phase_of(session) is Phase.LOADING and client.sent[-1] == before
    assert session.error is not None and "loaded again" in session.error.hint
    feed(session, LOADED)
    assert client.last_request.turns[-1] == Turn("user", "still there?")


def test_a_first_load_that_fails_has_nothing_to_go_back_to(session: ChatSession) -> None:
    feed(session, Failed(0, "the file is corrupt", "Fetch it again.", 3))
    session.reload(Load("/other.gguf"))
    feed(session, Failed(0, "the file is corrupt", "Fetch it again.", 3))
    assert phase_of(session) is Phase.FAILED and session.load.path == "/other.gguf"


def test_memory_between_requests(session: ChatSession, client: RecordingClient) -> None:
    feed(session, LOADED, Ledger(Memory(expert_bytes=5)))
    assert session.memory == Memory(expert_bytes=5)
    session.ask("hi")
    feed(session, finished(client.last_request.request_id, "ho"))
    assert session.memory == Memory()


def test_a_question_without_a_word_is_given_back_once(session: ChatSession, client: RecordingClient) -> None:
    feed(session, LOADED)
    session.ask("keep me")
    session.stop()
    feed(session, finished(client.last_request.request_id, "", "cancelled"))
    assert (session.take_back(), session.take_back()) == ("keep me", "")
    session.ask("again")
    feed(session, finished(client.last_request.request_id, "an answer"))
    assert session.take_back() == ""


def test_a_system_prompt_of_one_chat_does_not_reach_the_next(
    session: ChatSession, client: RecordingClient
) -> None:
    feed(session, LOADED)
    session.chat.set_system("be a pirate")
    session.ask("hi")
    assert client.last_request.turns[0] == Turn("system", "be a pirate")
    feed(session, finished(client.last_request.request_id, "arr"))
    assert session.keeper.chat is not None
    first = session.keeper.chat.id
    session.clear()
    session.ask("hi")
    assert client.last_request.turns[0] == Turn("system", "be brief")
    feed(session, finished(client.last_request.request_id, "hello"))
    session.open(first)
    assert session.system == "be a pirate"


WANTED = Load("/tiny.gguf", budget="60%")
WORKS = Load("/tiny.gguf")
DAMAGED = Failed(0, "damaged", "Fetch it again.", 3)
BEFORE: dict[str, list[ClientEvent | Load]] = {
    "loading": [],
    "ready": [LOADED],
    "failed": [DAMAGED],
    "died": [LOADED, Died(-9, "was killed", ())],
    "died while loading": [Died(-9, "was killed", ())],
    "reloading": [LOADED, Load("/tiny.gguf", budget="1MiB")],
    "going back": [LOADED, Load("/tiny.gguf", budget="1MiB"), DAMAGED],
    "gone back": [LOADED, Load("/tiny.gguf", budget="1MiB"), DAMAGED, LOADED],
}
"""What may have happened before somebody wants another budget; a `Load` stands for a reload."""


@pytest.mark.parametrize("wanted", [WANTED, Load("/other.gguf")], ids=["budget", "model"])
@pytest.mark.parametrize("asking", [False, True], ids=["quiet", "with a question"])
@pytest.mark.parametrize("before", BEFORE)
def test_a_wish_for_another_load_counts_in_every_state(
    client: RecordingClient, before: str, asking: bool, wanted: Load
) -> None:
    session = ChatSession(client, WORKS)
    session.start()
    for event in BEFORE[before]:
        session.reload(event) if isinstance(event, Load) else feed(session, event)
    waits = asking and phase_of(session) is Phase.LOADING
    if waits:
        session.ask("q")
    session.reload(wanted)
    assert phase_of(session) is Phase.LOADING and client.sent[-1] == wanted
    feed(session, LOADED)
    assert session.load == wanted and session.loaded == LOADED
    assert not waits or client.last_request.turns == [Turn("user", "q")]


@pytest.mark.parametrize("before", BEFORE)
def test_a_wish_that_fails_goes_back_to_what_has_worked(client: RecordingClient, before: str) -> None:
    session = ChatSession(client, WORKS)
    session.start()
    for event in BEFORE[before]:
        session.reload(event) if isinstance(event, Load) else feed(session, event)
    session.reload(WANTED)
    feed(session, DAMAGED)
    if LOADED in BEFORE[before]:
        assert phase_of(session) is Phase.LOADING and client.sent[-1] == WORKS
        feed(session, DAMAGED)
    assert phase_of(session) is Phase.FAILED, "what does not work either is not tried for ever"


def test_another_budget_while_the_model_is_fetched_does_not_begin_again(client: RecordingClient) -> None:
    fetcher = RecordingClient()
    session = ChatSession(
        client, WORKS, find_fetcher=lambda load: fetcher if load.path == "/tiny.gguf" else None
    )
    session.start()
    session.reload(WANTED)
    assert (fetcher.starts, client.sent) == (1, [])
    session.handle_fetcher(Made("/tiny.gguf"))
    assert client.sent == [WANTED]


def test_another_model_while_one_is_fetched_is_loaded_at_once(client: RecordingClient) -> None:
    session = ChatSession(
        client, WORKS, find_fetcher=lambda load: RecordingClient() if load == WORKS else None
    )
    session.start()
    session.reload(Load("/other.gguf"))
    assert client.sent == [Load("/other.gguf")] and phase_of(session) is Phase.LOADING


def test_a_file_that_goes_while_the_chat_runs_is_made_again(client: RecordingClient) -> None:
    """Whatever is wanted of the model next: another context, or the model by its name."""
    gone: list[RecordingClient] = []
    session = ChatSession(client, WORKS, find_fetcher=lambda load: gone[0] if gone else None)
    session.start()
    feed(session, LOADED)
    gone.append(RecordingClient())
    session.reload(Load("/tiny.gguf", ctx=4096))
    assert phase_of(session) is Phase.FETCHING and gone[0].starts == 1
    session.handle_fetcher(Made("/tiny.gguf"))
    assert phase_of(session) is Phase.LOADING and client.sent[-1] == Load("/tiny.gguf", ctx=4096)


def test_what_could_not_be_made_is_not_made_again_in_the_place_of_what_worked(
    client: RecordingClient,
) -> None:
    fetcher = RecordingClient()
    session = ChatSession(client, WORKS, find_fetcher=lambda load: None if load == WORKS else fetcher)
    session.start()
    feed(session, LOADED)
    session.reload(Load("/starter.gguf"))
    session.handle_fetcher(Failed(0, "no network", "Connect.", 6))
    assert fetcher.starts == 1 and phase_of(session) is Phase.LOADING and client.sent[-1] == WORKS


def test_words_are_true_when_the_model_from_before_is_gone_too(client: RecordingClient) -> None:
    session = ChatSession(client, WORKS)
    session.start()
    feed(session, LOADED)
    session.reload(WANTED)
    feed(session, Failed(0, "there is no file /tiny.gguf", "Check it.", 3))
    assert session.error is not None
    assert session.error.hint == "Check it. The model from before is being loaded again."
    feed(session, Failed(0, "there is no file /tiny.gguf", "Check it.", 3))
    assert str(session.error).startswith("The model from before cannot be loaded any more")
    assert "/model starter always works" in session.error.hint
