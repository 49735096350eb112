"""Chats are kept as they happen and come back: after a restart, after a kill, from a list or a search."""

from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from ebbtide.app import chat_keeper
from ebbtide.app.chat_app import ChatApp, PostEvent
from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.presets import EXAMPLE, PresetFolder
from ebbtide.app.screens.chat import ChatScreen
from ebbtide.app.screens.picker import Picker
from ebbtide.app.store import ChatStore, memory_store, open_store
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import Load, Sampling
from tests.helpers.chat_host import (
    answered,
    ask,
    press,
    prompt_of,
    ready,
    screen_of,
    shown,
    until,
    written,
)
from tests.helpers.fake_engine import Script, command_line


def app_with(store: ChatStore, script: Script = Script(), tools: ChatTools | None = None) -> ChatApp:  # noqa: B008
    """An application that keeps its chats in `store`."""

    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        client = EngineClient(command=command_line(script), on_event=post_engine)
        return ChatSession(client, Load("/models/tiny.gguf"), keeper=ChatKeeper(store))

    return ChatApp(make_session, "dark", tools=tools)


def contents(pilot: Pilot[None]) -> list[str]:
    return [turn.content for turn in screen_of(pilot).session.turns]


@pytest.fixture
def store(tmp_path: Path) -> ChatStore:
    return open_store(tmp_path / "chats.db")


async def test_the_last_chat_is_offered_and_goes_on_with_all_versions(store: ChatStore) -> None:
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "what is ebb?")
        await ask(pilot, "/regenerate")
        await shown(pilot, "◂ 2/2 ▸")
        await until(pilot, lambda: not screen_of(pilot).session.busy)
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        await shown(pilot, "Ctrl+O goes on with", "what is ebb?")
        press(pilot, "ctrl+o")
        await shown(pilot, "You said: what is ebb?", "◂ 2/2 ▸")
        await answered(pilot, "and tide?")
        assert len(contents(pilot)) == 4


async def test_a_chat_named_at_the_start_is_opened(store: ChatStore) -> None:
    chat = store.create_chat(title="old")
    store.add_message(chat.id, None, "user", "an old question")
    async with app_with(store, tools=ChatTools(chat_id=chat.id)).run_test() as pilot:
        await shown(pilot, "an old question")


async def test_a_draft_comes_back(store: ChatStore) -> None:
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        press(pilot, *"half a th")
        await until(pilot, lambda: store.load_draft("") == "half a th")
    async with app_with(store).run_test() as pilot:
        await written(pilot, "half a th")
        press(pilot, "o", "enter")
        await until(pilot, lambda: store.load_draft("") == "")


async def test_a_draft_of_words_and_a_paste_comes_back_as_it_was(store: ChatStore) -> None:
    typed = "first line\n" * 14
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        prompt_of(pilot).text = typed
        prompt_of(pilot).move_cursor(prompt_of(pilot).document.end)
        pilot.app.post_message(Paste("pasted\n" * 30))
        press(pilot, *"so?")
        await until(pilot, lambda: store.load_draft("").endswith("pasted\nso?"))
    async with app_with(store).run_test() as pilot:
        await written(pilot, f"{typed}[pasted 30 lines]so?")
        assert prompt_of(pilot).whole_text == typed + "pasted\n" * 30 + "so?"


async def test_leaving_keeps_every_word_that_was_shown(
    store: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that came since the last save."""
    monkeypatch.setattr(chat_keeper, "SAVE_S", 3600.0)
    async with app_with(store, Script(answer="word " * 5000, token_delay_s=0.01)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word word word" in screen_of(pilot).session.answer.text)
        session = screen_of(pilot).session
    record = store.whole_tree(store.list_chats()[0].id)[-1]
    assert record.state == "partial" and record.content.startswith("word word word")
    assert record.content.strip() == session.answer.text.strip()


async def test_a_partial_answer_is_there_after_a_kill(store: ChatStore) -> None:
    """The other connection sees what a process that was killed now would leave."""
    slow = Script(answer="word " * 5000, token_delay_s=0.01)
    async with app_with(store, slow).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        chats = store.list_chats
        await until(pilot, lambda: bool(chats()) and len(store.whole_tree(chats()[0].id)) == 2)
        chat = chats()[0]
        await until(pilot, lambda: "word word word" in store.whole_tree(chat.id)[-1].content)
        record = store.whole_tree(chat.id)[-1]
        assert record.state == "partial"
        leftover = ChatKeeper(store).load(chat.id)
        assert leftover.leaf is not None and leftover.leaf.text.startswith("word word word")


async def test_an_answer_that_was_cut_off_is_marked(store: ChatStore) -> None:
    chat = store.create_chat()
    question = store.add_message(chat.id, None, "user", "q")
    store.append_partial(
        store.add_message(chat.id, question.id, "assistant", state="partial").id, "half an answer"
    )
    async with app_with(store, tools=ChatTools(chat_id=chat.id)).run_test() as pilot:
        await shown(pilot, "half an answer", "cut off")


async def test_chats_are_listed_renamed_searched_and_deleted(store: ChatStore) -> None:
    async with app_with(store).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await answered(pilot, "about parsing dates")
        await ask(pilot, "/rename Dates [red]and\x1b[31m more")
        await shown(pilot, "Renamed to “Dates [red]and[31m more”.")
        await ask(pilot, "/new")
        await until(pilot, lambda: contents(pilot) == [])
        await answered(pilot, "about sorting lists")
        await ask(pilot, "/chats")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "Dates [red]and[31m more", "about sorting lists")
        press(pilot, *"dates", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await until(pilot, lambda: contents(pilot)[:1] == ["about parsing dates"])
        await ask(pilot, "/search sorting")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        await shown(pilot, "sorting lists")
        press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await until(pilot, lambda: contents(pilot)[:1] == ["about sorting lists"])
        await ask(pilot, "/delete")
        await shown(pilot, "cannot be brought back")
        await ask(pilot, "/delete yes")
        await until(pilot, lambda: len(store.list_chats()) == 1)


@pytest.mark.parametrize("kind", ["md", "json"])
async def test_export(store: ChatStore, kind: str, tmp_path: Path) -> None:
    async with app_with(store, tools=ChatTools(folder=tmp_path)).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await answered(pilot, "hello there")
        for count in (1, 2):
            await ask(pilot, f"/export {kind}")
            await until(pilot, lambda count=count: len(list(tmp_path.glob(f"*.{kind}"))) == count)  # type: ignore[misc]
        assert all("You said: hello there" in path.read_text() for path in tmp_path.glob(f"*.{kind}"))


async def test_an_export_holds_the_questions_that_wait(store: ChatStore, tmp_path: Path) -> None:
    tools = ChatTools(folder=tmp_path)
    async with app_with(store, Script(after_answer="hold"), tools=tools).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await ask(pilot, "hello")
        await shown(pilot, "You said: hello")
        await ask(pilot, "and then?")
        await until(pilot, lambda: screen_of(pilot).questions.queue.questions == ["and then?"])
        await ask(pilot, "/export md")
        await until(pilot, lambda: len(list(tmp_path.glob("*.md"))) == 1)
    (path,) = tmp_path.glob("*.md")
    assert "and then?\n\n*This question waits" in path.read_text()


async def test_export_to_a_folder_and_to_a_name(
    store: ChatStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "out").mkdir()
    async with app_with(store, tools=ChatTools(folder=tmp_path)).run_test(size=(160, 30)) as pilot:
        await ready(pilot)
        await answered(pilot, "hello")
        for argument, written_to in (("md ~/out", "out/*.md"), ("json out/x.json", "out/x.json")):
            await ask(pilot, f"/export {argument}")
            await until(pilot, lambda pattern=written_to: len(list(tmp_path.glob(pattern))) == 1)  # type: ignore[misc]
            await shown(pilot, f"Exported to {tmp_path}/out/")


async def test_no_preset_yet_shows_an_example(store: ChatStore, tmp_path: Path) -> None:
    async with app_with(store, tools=ChatTools(presets=PresetFolder(tmp_path))).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "/preset")
        await shown(pilot, "There are no presets yet", 'system = "Answer in one sentence."')
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "brief.toml").write_text(EXAMPLE)
    assert PresetFolder(tmp_path).preset("brief", Sampling()).sampling.temperature == 0.7


async def test_a_new_chat_in_the_middle_keeps_the_old_one(store: ChatStore) -> None:
    slow = Script(answer="word " * 5000, token_delay_s=0.01)
    async with app_with(store, slow).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        await ask(pilot, "/new")
        await until(pilot, lambda: contents(pilot) == [])
        old = store.whole_tree(store.list_chats()[0].id)
        assert [message.state for message in old] == ["complete", "stopped"] and "word" in old[1].content
        screen = screen_of(pilot)
        await screen.changes.open(store.list_chats()[0].id)
        await shown(pilot, "word", "Stopped.")


async def test_a_stopped_answer_is_marked_once_and_still_when_its_version_is_shown_again(
    store: ChatStore,
) -> None:
    slow = Script(answer="word " * 5000, token_delay_s=0.01)
    async with app_with(store, slow).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        screen = screen_of(pilot)
        await until(pilot, lambda: "word" in screen.session.answer.text)
        press(pilot, "escape")
        assert (await shown(pilot, "Stopped.", "ready")).count("Stopped.") == 1
        await screen.changes.open(store.list_chats()[0].id)
        assert (await shown(pilot, "word", "Stopped.")).count("Stopped.") == 1


async def test_a_queue_stays_with_its_chat(store: ChatStore) -> None:
    slow = Script(answer="word " * 5000, token_delay_s=0.01)
    async with app_with(store, slow).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "go")
        await until(pilot, lambda: "word" in screen_of(pilot).session.answer.text)
        await ask(pilot, "and then")
        await shown(pilot, "1. and then")
        await ask(pilot, "/new")
        await shown(pilot, "Ask something", without=["and then"])
        await ask(pilot, "/chats")
        await until(pilot, lambda: isinstance(pilot.app.screen, Picker))
        press(pilot, "enter")
        await shown(pilot, "1. and then", "held")
        press(pilot, "up")
        await written(pilot, "and then")
        await until(pilot, lambda: store.load_queue(store.list_chats()[0].id) == [])


async def test_the_context_of_a_chat_that_was_opened_is_estimated(store: ChatStore) -> None:
    chat = store.create_chat()
    store.add_message(chat.id, None, "user", "word " * 1000)
    silent = Script(counts=False)
    async with app_with(store, silent, ChatTools(chat_id=chat.id)).run_test() as pilot:
        await shown(pilot, "context ~1,000 / 4,096")
        await answered(pilot, "and now?")
        await shown(pilot, "/ 4,096", without=["~"])
        await ask(pilot, "/budget 60%")
        await shown(pilot, "context ~")


async def test_the_context_of_a_chat_is_counted_whichever_branch_is_shown(store: ChatStore) -> None:
    chat = store.create_chat()
    for words in (1000, 500):
        store.add_message(chat.id, None, "user", "word " * words + "end")
    async with app_with(store, Script(answer="You see."), ChatTools(chat_id=chat.id)).run_test() as pilot:
        await shown(pilot, "context 501 / 4,096")
        screen = screen_of(pilot)
        await screen.changes.switch(screen.session.conversation.path[0], 1)
        await shown(pilot, "context 1,001 / 4,096")
        screen.session.chat.set_system("Be very brief.")
        await shown(pilot, "context 1,004 / 4,096")
        await answered(pilot, "and now?")
        await screen.changes.leave_out(1)
        await shown(pilot, "context 7 / 4,096")
        await screen.changes.send_all()
        await ask(pilot, "/budget 60%")
        await shown(pilot, "context 1,007 / 4,096")


async def test_the_editor_of_history_knows_earlier_chats(store: ChatStore) -> None:
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "from yesterday")
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        await until(pilot, lambda: bool(prompt_of(pilot).sent_before))
        press(pilot, "up")
        await written(pilot, "from yesterday")


async def test_a_question_that_got_no_word_leaves_no_chat_and_is_in_the_prompt(store: ChatStore) -> None:
    failure = ["the machine is on fire", "Put it out.", "1"]
    async with app_with(store, Script(request_failure=failure)).run_test() as pilot:
        await ready(pilot)
        await ask(pilot, "help me")
        await shown(pilot, "on fire")
        await written(pilot, "help me")
        assert contents(pilot) == [] and store.list_chats() == []


async def test_a_store_in_memory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    from ebbtide.app.store import open_or_memory

    async with app_with(open_or_memory(tmp_path / "file" / "chats.db")).run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        await shown(pilot, "kept in memory")


async def test_thinking_is_kept_apart_and_comes_back_folded() -> None:
    store = memory_store()
    script = Script(answer="so I think </think> Yes.", opens_thinking=True)
    async with app_with(store, script).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "q")
        chat = store.list_chats()[0]
        record = store.whole_tree(chat.id)[-1]
        assert (record.thinking.strip(), record.content.strip()) == ("so I think", "Yes.")
    async with app_with(store, tools=ChatTools(chat_id=chat.id)).run_test() as pilot:
        await shown(pilot, "▸ thought", "Yes.", without=["so I think"])
