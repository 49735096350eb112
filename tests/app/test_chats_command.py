"""`ebbtide chats`: what it prints, what it writes, what it removes, and what it refuses."""

import itertools
import json
from pathlib import Path

import click
import pytest

from ebbtide.app.paths import find_paths
from ebbtide.app.store import ChatStore, import_json, open_store
from tests.helpers.app_types import Cli


def add_chat(title: str = "", question: str = "Why?") -> str:
    with open_store(find_paths().chats) as store:
        chat = store.create_chat(title=title, model="tiny")
        asked = store.add_message(chat.id, None, "user", question)
        store.add_message(chat.id, asked.id, "assistant", "Because.\x1b[31m")
        return chat.id


def test_nothing_yet(cli: Cli, home: Path) -> None:
    result = cli("chats", "ls")
    assert (result.code, result.out) == (0, "") and "No chats yet" in result.err
    assert cli("chats", "ls", "--json").out == "[]\n"
    assert cli("chats", "show", "bcdfgh").code == 2
    assert not home.exists(), "looking creates nothing"


def test_ls(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1_000)
    monkeypatch.setattr("ebbtide.app.store.store.now_ms", lambda: next(clock))
    first, second = add_chat("First\u202e"), add_chat()
    lines = cli("chats", "ls").out.splitlines()
    assert [line.split()[0] for line in lines] == [second, first]
    assert lines[0].endswith("  Why?") and lines[1].endswith("  First⟨RLO⟩")
    listed = json.loads(cli("chats", "ls", "--json").out)
    assert set(listed[0]) == {"id", "title", "model", "messages", "created_ms", "updated_ms"}
    assert (listed[0]["id"], listed[0]["messages"], listed[0]["model"]) == (second, 2, "tiny")


def test_show(cli: Cli) -> None:
    chat_id = add_chat()
    out = cli("chats", "show", chat_id).out
    assert out.startswith("# Why?\n") and "Because.[31m" in out and "\x1b" not in out
    assert json.loads(cli("chats", "show", chat_id, "--json").out)["format"] == "ebbtide-chat"


def test_alone_it_lists(cli: Cli) -> None:
    assert cli("chats").code == 0 and "No chats yet" in cli("chats").err
    chat_id = add_chat()
    result = cli("chats")
    assert result.code == 0 and result.out.startswith(chat_id) and result.out == cli("chats", "ls").out


@pytest.mark.parametrize("command", [["show"], ["export"], ["rm", "--yes"]])
def test_an_unknown_id_names_the_nearest(cli: Cli, command: list[str]) -> None:
    chat_id = add_chat()
    result = cli("chats", *command, chat_id[:-1])
    assert result.code == 2 and result.out == "" and f"Near it: {chat_id}" in result.err
    assert cli("chats", *command, "\udcff\x1b").code == 2


def test_export(cli: Cli, tmp_path: Path) -> None:
    chat_id = add_chat("Sky & sea")
    assert cli("chats", "export", chat_id).out.startswith("# Sky & sea\n")
    file = tmp_path / "out.json"
    result = cli("chats", "export", chat_id, "--format", "json", "--out", str(file))
    assert result.code == 0 and result.out == "" and str(file) in result.err
    with open_store(tmp_path / "other.db") as store:
        assert import_json(store, file.read_bytes()).message_count == 2
    assert cli("chats", "export", chat_id, "--out", str(tmp_path)).code == 0
    assert (tmp_path / f"{chat_id}-sky-sea.md").read_text(encoding="utf-8").startswith("# Sky & sea\n")


def test_an_export_never_writes_over_a_file_unless_it_is_told_to(cli: Cli, tmp_path: Path) -> None:
    chat_id, file = add_chat("Sky"), tmp_path / "mine.md"
    for out in (file, tmp_path):
        there = file if out == file else tmp_path / f"{chat_id}-sky.md"
        there.write_text("precious")
        result = cli("chats", "export", chat_id, "--out", str(out))
        assert result.code == 2 and "is there already" in result.err and "--force" in result.err
        assert there.read_text() == "precious"
        assert cli("chats", "export", chat_id, "--out", str(out), "--force").code == 0
        assert there.read_text().startswith("# Sky\n")


def test_an_export_holds_what_waits_in_the_queue(cli: Cli) -> None:
    chat_id = add_chat("Sky")
    with open_store(find_paths().chats) as store:
        store.save_queue(chat_id, ["And at night?"])
    assert "And at night?" in cli("chats", "export", chat_id).out
    assert json.loads(cli("chats", "show", chat_id, "--json").out)["queued"] == ["And at night?"]


def test_export_to_a_place_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    result = cli("chats", "export", add_chat(), "--out", str(tmp_path / "no" / "where.md"))
    assert result.code == 2 and "cannot be written" in result.err


def test_rm_asks_only_on_a_terminal(cli: Cli) -> None:
    chat_id = add_chat()
    result = cli("chats", "rm", chat_id, stdin="y\n")
    assert result.code == 2 and "--yes" in result.err
    assert chat_id in cli("chats", "ls").out


def test_rm_several(cli: Cli) -> None:
    doomed, kept = [add_chat(), add_chat()], add_chat()
    result = cli("chats", "rm", "--yes", "--json", *doomed, doomed[0])
    assert json.loads(result.out) == {"removed": doomed}
    assert [line.split()[0] for line in cli("chats", "ls").out.splitlines()] == [kept]
    assert cli("chats", "rm", "--yes", kept).err == "Removed 1 chat.\n"


def test_rm_removes_nothing_when_one_id_is_unknown(cli: Cli) -> None:
    chat_id = add_chat()
    assert cli("chats", "rm", "--yes", chat_id, "zzz").code == 2
    assert chat_id in cli("chats", "ls").out


@pytest.mark.parametrize(("answer", "left"), [(True, 0), (False, 1)])
def test_rm_on_a_terminal(cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: bool, left: int) -> None:
    chat_id = add_chat()
    monkeypatch.setattr("ebbtide.app.commands.chats.sys", TerminalSys())
    monkeypatch.setattr(click, "confirm", lambda text, err: answer)
    result = cli("chats", "rm", chat_id)
    assert result.code == 0 and f"{chat_id}: Why?, 2 messages" in result.err
    assert len(json.loads(cli("chats", "ls", "--json").out)) == left


class TerminalSys:
    """`sys` of somebody who sits at a terminal."""

    class stdin:  # noqa: N801 - stands for sys.stdin
        @staticmethod
        def isatty() -> bool:
            return True


def test_rm_that_is_not_saved_says_so(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    chat_id = add_chat()
    path = find_paths().chats
    real = ChatStore.delete_chat

    def delete_on_a_full_disk(store: ChatStore, doomed: str) -> None:
        store._database._disk.execute("PRAGMA query_only = ON")  # type: ignore[union-attr]
        real(store, doomed)

    monkeypatch.setattr(ChatStore, "delete_chat", delete_on_a_full_disk)
    result = cli("chats", "rm", "--yes", chat_id)
    assert result.code == 1 and "cannot be saved" in result.err
    with open_store(path) as store:
        assert store.get_chat(chat_id)


def test_a_newer_store_is_an_error_with_a_way_out(cli: Cli) -> None:
    import sqlite3

    add_chat()
    connection = sqlite3.connect(find_paths().chats)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    result = cli("chats", "ls")
    assert result.code == 1 and "version 99" in result.err and "Update ebbtide" in result.err


def test_a_damaged_store_is_reported(cli: Cli) -> None:
    path = find_paths().chats
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database, certainly" * 100)
    result = cli("chats", "ls")
    assert result.code == 0 and "damaged" in result.err and "chats-damaged-" in result.err
