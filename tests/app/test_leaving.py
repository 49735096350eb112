"""Leaving while messages are not saved: nothing goes without a word, and all of it is written somewhere."""

import json
import sqlite3
from pathlib import Path

import pytest

from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.conversation import Conversation
from ebbtide.app.paths import find_paths
from ebbtide.app.rescue import rescue
from ebbtide.app.screens import chat as chat_module
from ebbtide.app.store import ChatStore, StoreUnsaved, memory_store, open_store
from tests.app.store.test_trouble import empty_disk, fill_disk
from tests.app.test_chat_kept import app_with
from tests.helpers.chat_host import answered, press, ready, screen_of, shown, until
from tests.helpers.fake_engine import Script
from tests.helpers.terminal import Terminal

QUESTION = "a question that needs pages of the file " * 200


@pytest.fixture
def store(tmp_path: Path) -> ChatStore:
    return open_store(tmp_path / "chats.db")


async def test_with_all_saved_ctrl_d_leaves_at_once(store: ChatStore) -> None:
    async with app_with(store).run_test() as pilot:
        await ready(pilot)
        await answered(pilot, "hello")
        press(pilot, "ctrl+d")
        await until(pilot, lambda: pilot.app._exit)


@pytest.mark.parametrize("keys", [["ctrl+d"], ["ctrl+c", "ctrl+c"]])
async def test_leaving_with_unsaved_messages_is_said_first(store: ChatStore, keys: list[str]) -> None:
    async with app_with(store).run_test(size=(110, 40)) as pilot:
        await ready(pilot)
        fill_disk(store)
        await answered(pilot, QUESTION)
        press(pilot, *keys)
        key = keys[0].replace("ctrl+", "Ctrl+").replace("+d", "+D").replace("+c", "+C")
        await shown(pilot, "2 messages are not saved yet", f"{key} again leaves")
        assert not pilot.app._exit
        press(pilot, keys[0])
        await until(pilot, lambda: pilot.app._exit)


async def test_leaving_saves_what_the_disk_takes_by_now(store: ChatStore) -> None:
    async with app_with(store).run_test(size=(110, 40)) as pilot:
        await ready(pilot)
        fill_disk(store)
        await answered(pilot, QUESTION)
        assert store.unsaved_messages()
        empty_disk(store)
        press(pilot, "ctrl+d")
        await until(pilot, lambda: pilot.app._exit)
    assert store.unsaved == 0


async def test_an_idle_chat_is_saved_once_there_is_space(
    store: ChatStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_module, "RETRY_S", 0.05)
    async with app_with(store).run_test(size=(110, 40)) as pilot:
        await ready(pilot)
        fill_disk(store)
        await answered(pilot, QUESTION)
        assert store.unsaved
        chat = screen_of(pilot).session.keeper.chat
        assert chat is not None
        empty_disk(store)
        await shown(pilot, "Chats are saved again.")
        with open_store(tmp_path / "chats.db") as other:
            assert other.get_chat(chat.id).message_count == 2


def unsaved_keeper() -> ChatKeeper:
    """A chat of two versions of one question, in memory because its file cannot be used."""
    keeper = ChatKeeper(memory_store(StoreUnsaved("The folder is closed", hint="Open it.")))
    conversation = Conversation()
    for text in ("first wording", "second wording"):
        conversation.leaf = None
        keeper.asked(conversation.add("user", text))
    return keeper


def test_what_cannot_be_saved_is_written_to_files_with_all_versions(tmp_path: Path) -> None:
    said = rescue(unsaved_keeper(), Conversation(), tmp_path)
    markdown, exported = sorted(tmp_path.glob("*.md")), sorted(tmp_path.glob("*.json"))
    assert len(markdown) == len(exported) == 1
    assert said[0] == "2 messages are not saved in the chat store. The folder is closed."
    assert said[2:] == [f"  {markdown[0]}", f"  {exported[0]}"]
    assert "second wording" in markdown[0].read_text("utf-8")
    tree = json.loads(exported[0].read_text("utf-8"))
    assert [message["content"] for message in tree["messages"]] == ["first wording", "second wording"]
    assert markdown[0].stat().st_mode & 0o077 == 0, "what was said is its owner's"


def test_a_second_rescue_overwrites_nothing(tmp_path: Path) -> None:
    keeper = unsaved_keeper()
    rescue(keeper, Conversation(), tmp_path)
    rescue(keeper, Conversation(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_folder_that_takes_no_file_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    said = rescue(unsaved_keeper(), Conversation(), tmp_path / "not there")
    assert len(list(tmp_path.glob("*.md"))) == 1 and any(str(tmp_path) in line for line in said)


def test_messages_that_the_store_never_took_are_rescued_too(store: ChatStore, tmp_path: Path) -> None:
    keeper, conversation = ChatKeeper(store), Conversation()
    kept = conversation.add("user", "kept")
    keeper.asked(kept)
    store._database._disk = sqlite3.connect(tmp_path / "empty.db")  # an error that nothing is kept for
    keeper.asked(conversation.add("assistant", "lost"))
    assert keeper.fault is not None
    folder = tmp_path / "rescue"
    folder.mkdir()
    assert rescue(keeper, conversation, folder)[0].startswith("1 message is not saved")
    (markdown,) = folder.glob("*.md")
    assert "kept" in markdown.read_text("utf-8") and "lost" in markdown.read_text("utf-8")


def test_with_all_saved_nothing_is_said(store: ChatStore, tmp_path: Path) -> None:
    keeper, conversation = ChatKeeper(store), Conversation()
    keeper.asked(conversation.add("user", "kept"))
    assert rescue(keeper, conversation, tmp_path) == []


@pytest.mark.parametrize("end", ["key", "signal"])
def test_the_whole_program_tells_where_the_rescued_files_are(
    end: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    find_paths().chats.mkdir(parents=True)  # a folder where the file should be: nothing can be kept
    with Terminal(Script(answer="the answer"), model) as terminal:
        terminal.wait_for("ready")
        terminal.send("my words\r")
        terminal.wait_for("the answer", "Chats cannot")
        if end == "key":
            terminal.send("\x04")
            terminal.wait_for("2 messages are not saved yet")
            terminal.send("\x04")
        else:
            terminal.process.terminate()
        assert terminal.wait_for_end() == (0 if end == "key" else 143)
        (markdown,) = folder.glob("*.md")
        behind = terminal.output.rpartition(b"\x1b[?1049l")[2].decode()
        assert "2 messages are not saved in the chat store" in behind and str(markdown.name) in behind
        assert "my words" in markdown.read_text("utf-8") and "the answer" in markdown.read_text("utf-8")


def test_after_the_end_it_is_said_how_to_go_on_with_a_chat(model: str) -> None:
    with Terminal(Script(), model) as terminal:
        terminal.wait_for("ready")
        terminal.send("hello\r")
        terminal.wait_for("You said: hello")
        terminal.wait_for("context 4 / ")
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        behind = terminal.output.rpartition(b"\x1b[?1049l")[2].decode()
    [chat] = open_store(find_paths().chats).list_chats()
    told = " ".join(behind.split())
    assert f"--chat {chat.id}` goes on with this chat." in told and Path(model).name in told


def test_after_an_empty_chat_nothing_is_said(model: str) -> None:
    with Terminal(Script(), model) as terminal:
        terminal.wait_for("ready")
        terminal.send("\x04")
        assert terminal.wait_for_end() == 0
        assert "--chat" not in terminal.output.rpartition(b"\x1b[?1049l")[2].decode()
