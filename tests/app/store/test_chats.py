"""Chats as a list: made, named, listed, removed; and what the app needs at its start."""

from pathlib import Path

import pytest

from ebbtide.app.store import NEW_CHAT, ChatStore, UnknownChat, file_name, open_store, title_of


def test_a_new_chat_is_empty(store: ChatStore) -> None:
    chat = store.create_chat(model="tiny", preset="coder", system="Be brief.")
    assert store.get_chat(chat.id) == chat
    assert (chat.model, chat.preset, chat.system, chat.head_id, chat.message_count) == (
        "tiny",
        "coder",
        "Be brief.",
        None,
        0,
    )
    assert store.path(chat.head_id) == [] and store.branches(chat.head_id) == {}
    assert 0 < chat.created_ms == chat.updated_ms


def test_ids_are_short_and_typeable(store: ChatStore) -> None:
    ids = [store.create_chat().id for _ in range(200)]
    assert len(set(ids)) == 200
    assert all(len(chat_id) == 6 and set(chat_id).isdisjoint("aeiou01l-") for chat_id in ids)


def test_the_first_question_names_the_chat(store: ChatStore) -> None:
    chat = store.create_chat()
    first = store.add_message(chat.id, None, "user", "Why is\tthe sky\x1b[2J blue?\nPlease.")
    assert store.get_chat(chat.id).title == "Why is the sky[2J blue?"
    store.add_message(chat.id, first.id, "user", "Another question")
    assert store.get_chat(chat.id).title == "Why is the sky[2J blue?"


def test_a_given_title_stays(store: ChatStore) -> None:
    chat = store.create_chat(title="Mine")
    store.add_message(chat.id, None, "user", "Why?")
    assert store.get_chat(chat.id).title == "Mine"
    store.rename_chat(chat.id, "  Sky\x00 and\nsea \x9b2J")
    assert store.get_chat(chat.id).title == "Sky and sea 2J"


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("", ""),
        ("short", "short"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("```\n```", "``` ```"),
        ("---\n\n  second line is the first with a word  \n", "second line is the first with a word"),
        ("?!", "?!"),
        ("x" * 60, "x" * 60),
        ("x" * 61, "x" * 59 + "…"),
        ("word " * 30, ("word " * 12).strip() + "…"),
        ("one, two, " * 9, "one, two, one, two, one, two, one, two, one, two, one, two…"),
        ("漢" * 40, "漢" * 29 + "…"),  # 58 cells, and half a character does not fit
        ("see " + "/very/long/path" * 9, "see /very/long/path/very/long/path/very/long/path/very/long…"),
    ],
)
def test_default_titles_fit_into_a_row(question: str, title: str) -> None:
    assert title_of(question) == title


def test_listed_by_the_latest_change(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1_000, 2_000))
    monkeypatch.setattr("ebbtide.app.store.store.now_ms", lambda: next(clock))
    first, second, third = (store.create_chat(title=title) for title in "abc")
    store.add_message(first.id, None, "user", "again")
    assert [chat.title for chat in store.list_chats()] == ["a", "c", "b"]
    assert [chat.title for chat in store.list_chats(limit=1, offset=1)] == ["c"]
    assert store.list_chats(limit=5, offset=3) == []
    assert [chat.message_count for chat in store.list_chats()] == [1, 0, 0]
    assert (second.updated_ms, third.updated_ms) == (1_001, 1_002)


def test_settings_of_a_chat_can_change(store: ChatStore) -> None:
    chat = store.create_chat(model="tiny")
    store.set_chat_settings(chat.id, model="large", preset="", system="Be\ud800 brief.")
    assert store.get_chat(chat.id).system == "Be\ufffd brief."
    assert store.get_chat(chat.id).model == "large"


def test_an_unknown_chat_names_its_neighbours(store: ChatStore) -> None:
    chat = store.create_chat()
    typed = chat.id[:3].upper() + chat.id[4:]
    with pytest.raises(UnknownChat, match=typed) as caught:
        store.get_chat(typed)
    assert caught.value.nearest == [chat.id] and chat.id in caught.value.hint
    for change in (
        lambda: store.rename_chat("zzz", "x"),
        lambda: store.delete_chat("zzz"),
        lambda: store.set_active("zzz", None),
        lambda: store.set_chat_settings("zzz", model="", preset="", system=""),
        lambda: store.add_message("zzz", None, "user", "hi"),
    ):
        with pytest.raises(UnknownChat):
            change()
    assert store.stats().messages == 0


def test_removing_leaves_no_text_behind(store: ChatStore, file: Path) -> None:
    doomed, kept = store.create_chat(), store.create_chat()
    parent = store.add_message(doomed.id, None, "user", "xyzzysecret " * 500)
    store.add_message(doomed.id, parent.id, "assistant", "plughsecret", thinking="frotzsecret")
    store.add_message(kept.id, None, "user", "hello")
    store.save_draft(doomed.id, "draftsecret")
    store.save_queue(doomed.id, ["queuesecret"])
    assert store.search("xyzzysecret")
    store.delete_chat(doomed.id)
    assert store.search("xyzzysecret") == [] and store.load_draft(doomed.id) == ""
    assert store.load_queue(doomed.id) == []
    assert [chat.id for chat in store.list_chats()] == [kept.id]
    bytes_left = file.read_bytes() + Path(f"{file}-wal").read_bytes()
    for word in (b"xyzzysecret", b"plughsecret", b"frotzsecret", b"draftsecret", b"queuesecret"):
        assert word not in bytes_left


def test_queued_questions_are_kept_in_their_order(store: ChatStore, file: Path) -> None:
    chat = store.create_chat()
    store.save_queue(chat.id, [f"question {number}" for number in range(12)])
    store.save_queue(NEW_CHAT, ["of no chat yet", "\ud800"])
    with open_store(file) as other:
        assert other.load_queue(chat.id) == [f"question {number}" for number in range(12)]
        assert other.load_queue(NEW_CHAT) == ["of no chat yet", "\N{REPLACEMENT CHARACTER}"]
    store.save_queue(chat.id, ["question 11"])
    assert store.load_queue(chat.id) == ["question 11"] and len(store.load_queue(NEW_CHAT)) == 2


def test_who_gave_the_title_is_known(store: ChatStore) -> None:
    chat = store.create_chat()
    store.add_message(chat.id, None, "user", "why?")
    assert not store.get_chat(chat.id).is_named
    store.rename_chat(chat.id, "why?")
    assert store.get_chat(chat.id).is_named
    store.rename_chat(chat.id, "")
    assert not store.get_chat(chat.id).is_named
    assert store.create_chat(title="mine").is_named


def test_a_very_long_chat_can_be_removed(store: ChatStore) -> None:
    chat = store.create_chat()
    parent = None
    for number in range(1_200):  # SQLite cascades 1,000 levels at most
        parent = store.add_message(chat.id, parent, "user", str(number)).id
    assert len(store.path(parent)) == 1_200
    store.delete_chat(chat.id)
    assert store.stats().messages == 0


def test_the_open_chat_is_remembered(store: ChatStore, file: Path) -> None:
    assert store.last_open_chat() is None
    chat, other = store.create_chat(), store.create_chat()
    store.set_open_chat(other.id)
    store.set_open_chat(chat.id)
    with open_store(file) as again:
        assert again.last_open_chat() == chat
    store.set_open_chat(NEW_CHAT)
    assert store.last_open_chat() is None
    store.set_open_chat(chat.id)
    store.delete_chat(chat.id)
    assert store.last_open_chat() is None


def test_drafts(store: ChatStore, file: Path) -> None:
    chat = store.create_chat()
    store.save_draft(NEW_CHAT, "not begun \ud83d")
    store.save_draft(chat.id, "line\nline")
    with open_store(file) as again:
        assert again.load_draft(NEW_CHAT) == "not begun \ufffd"
        assert again.load_draft(chat.id) == "line\nline"
    store.save_draft(chat.id, "")
    assert store.load_draft(chat.id) == "" and store.load_draft("zzz") == ""


def test_history_has_each_text_once_the_latest_first(store: ChatStore) -> None:
    for texts in (["one", "two", "one"], ["Three", "two"]):
        chat = store.create_chat()
        for text in texts:
            question = store.add_message(chat.id, None, "user", text)
            store.add_message(chat.id, question.id, "assistant", "answer")
    assert store.history() == ["two", "Three", "one"]
    assert store.history(limit=2) == ["two", "Three"] and store.history(limit=0) == []
    assert store.history(containing="THR") == ["Three"]


def test_stats(store: ChatStore, file: Path) -> None:
    chat = store.create_chat()
    store.add_message(chat.id, None, "user", "x")
    stats = store.stats()
    assert (stats.chats, stats.messages) == (1, 1) and stats.disk_bytes >= file.stat().st_size > 0


@pytest.mark.parametrize(
    ("title", "words"),
    [
        ("Why is the sky blue?", "-why-is-the-sky-blue"),
        ("../../etc/passwd\x1b", "-etc-passwd"),
        ("漢字 und Ümlaut", "-漢字-und-ümlaut"),
        ("con", "-con"),
        ("...", ""),
        ("long " * 40, "-" + "long-" * 9 + "lon"),
    ],
)
def test_file_names(store: ChatStore, title: str, words: str) -> None:
    chat = store.create_chat(title=title)
    assert file_name(chat, "md") == f"{chat.id}{words}.md"
