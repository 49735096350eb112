"""Chats as files: Markdown to read, JSON that comes back whole, and files that are no chats."""

import json
from typing import Any

import pytest
from markdown_it import MarkdownIt

from ebbtide.app.store import (
    BadImport,
    Chat,
    ChatStore,
    Message,
    State,
    export_json,
    export_markdown,
    import_json,
)
from ebbtide.engine.messages import Timings, Usage
from tests.helpers.nasty_texts import NASTY


def branched(store: ChatStore) -> Chat:
    chat = store.create_chat(model="tiny", preset="coder", system="Be brief.")
    question = store.add_message(chat.id, None, "user", "Why?\x1b[2J\0 漢 👍🏽")
    answer = store.add_message(chat.id, question.id, "assistant", state="partial", model="tiny")
    store.finish_message(
        answer.id,
        content="Because.",
        thinking="Hm.\n\nOh.",
        finish_reason="stop",
        usage=Usage(1, 2, 3),
        timings=Timings(decode_tok_s=9.5),
    )
    store.add_message(chat.id, question.id, "assistant", "Other", state="partial")
    store.set_left_out([question.id], True)
    store.set_active(chat.id, answer.id)
    return store.get_chat(chat.id)


def shape(store: ChatStore, chat: Chat) -> list[dict[str, object]]:
    """The tree without the ids that a copy has of its own."""
    messages = store.whole_tree(chat.id)
    place = {message.id: at for at, message in enumerate(messages)}

    def fields(message: Message) -> dict[str, object]:
        state = "stopped" if message.state == "partial" else message.state
        values = {name: getattr(message, name) for name in Message.__struct_fields__}
        parent = None if message.parent_id is None else place[message.parent_id]
        return values | {"id": 0, "chat_id": "", "parent_id": parent, "state": state}

    return [fields(message) for message in messages]


def test_json_comes_back_whole(store: ChatStore) -> None:
    chat = branched(store)
    text = export_json(store, chat.id)
    assert text.isascii() and "\x1b" not in text
    copy = import_json(store, text)
    assert copy.id != chat.id and shape(store, copy) == shape(store, chat)
    assert [m.content for m in store.path(copy.head_id)] == [m.content for m in store.path(chat.head_id)]
    assert (copy.title, copy.model, copy.preset, copy.system) == (chat.title, "tiny", "coder", "Be brief.")
    assert (copy.created_ms, copy.updated_ms) == (chat.created_ms, chat.updated_ms)
    assert store.get_chat(copy.id) == copy


def test_every_text_comes_back(store: ChatStore) -> None:
    chat = store.create_chat()
    for text in NASTY:
        store.add_message(chat.id, None, "user", text)
    copy = import_json(store, export_json(store, chat.id))
    assert tuple(message.content for message in store.whole_tree(copy.id)) == NASTY


def test_an_empty_chat_comes_back(store: ChatStore) -> None:
    copy = import_json(store, export_json(store, store.create_chat().id))
    assert copy.head_id is None and copy.message_count == 0


def test_questions_that_wait_come_back(store: ChatStore) -> None:
    chat = branched(store)
    store.save_queue(chat.id, ["one", "two\x1b"])
    copy = import_json(store, export_json(store, chat.id))
    assert store.load_queue(copy.id) == store.load_queue(chat.id) != []
    file = json.loads(export_json(store, chat.id))
    del file["queued"]
    assert store.load_queue(import_json(store, json.dumps(file)).id) == [], "of an older ebbtide"


def test_questions_that_wait_are_in_the_markdown_as_such(store: ChatStore) -> None:
    chat = branched(store)
    store.save_queue(chat.id, ["```\nopen fence", "last\x1b"])
    text = export_markdown(store, chat.id)
    assert text.count("was not sent yet") == 2 and "\x1b" not in text
    assert text.index("open fence\n```") < text.index("last")


def test_unknown_fields_are_passed_over(store: ChatStore) -> None:
    file = json.loads(export_json(store, branched(store).id))
    file["colour"] = file["messages"][0]["colour"] = "red"
    assert import_json(store, json.dumps(file)).message_count == 3


def change(file: dict[str, Any], **values: object) -> str:
    return json.dumps(file | values)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "truncated"),
        ("[]", "object"),
        ("{}", "format"),
        ('{"format": "other", "version": 1}', "other"),
        ('{"format": "ebbtide-chat", "version": 2}', "its version is 2"),
        ('{"format": "ebbtide-chat", "version": 1}', "title"),
        (b"\xff\xfe", "malformed"),
        ('{"colour": ' + "[" * 100_000, "recursion"),
    ],
)
def test_what_is_no_chat_is_refused(store: ChatStore, text: str | bytes, reason: str) -> None:
    with pytest.raises(BadImport, match=reason) as caught:
        import_json(store, text)
    assert caught.value.exit_code == 2 and store.stats().chats == 0


@pytest.mark.parametrize(
    ("messages", "head", "reason"),
    [
        ([{"number": 1, "parent": 1}], 1, "comes before its parent"),
        ([{"number": 1, "parent": 2}, {"number": 2, "parent": None}], 1, "comes before its parent"),
        ([{"number": 1, "parent": None}, {"number": 1, "parent": None}], 1, "two messages"),
        ([{"number": 1, "parent": None}], 2, "head"),
        ([{"number": 1, "parent": None, "role": "tool"}], 1, "tool"),
        ([{"number": 1, "parent": None, "state": "odd"}], 1, "odd"),
        ([{"number": -1, "parent": None}], None, "number"),
        ([{"number": 1, "parent": None, "created_ms": 10**18}], 1, "created_ms"),
        ([{"number": 1, "parent": None, "content": None}], 1, "content"),
    ],
)
def test_trees_that_are_none_are_refused(
    store: ChatStore, messages: list[dict[str, Any]], head: int | None, reason: str
) -> None:
    whole = [{"role": "user", "content": "x"} | message for message in messages]
    file = {"format": "ebbtide-chat", "version": 1, "title": "t", "head": head, "messages": whole}
    with pytest.raises(BadImport, match=reason):
        import_json(store, json.dumps(file))
    assert store.stats().chats == 0


def test_an_imported_title_is_one_safe_line(store: ChatStore) -> None:
    file = {"format": "ebbtide-chat", "version": 1, "title": "a\x1b]0;x\x07\nb", "messages": []}
    assert import_json(store, json.dumps(file)).title == "a]0;x b"


def test_markdown(store: ChatStore) -> None:
    chat = branched(store)
    text = export_markdown(store, chat.id)
    assert text.startswith("# Why?[2J 漢 👍🏽\n\n*Chat ")
    assert text.endswith(
        "## System\n\nBe brief.\n\n## You\n\nWhy?[2J 漢 👍🏽\n\n"
        "## Assistant (tiny)\n\n> Hm.\n>\n> Oh.\n\nBecause.\n"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [("partial", "cut off"), ("stopped", "stopped"), ("failed", "failed"), ("complete", "")],
)
def test_markdown_says_how_an_answer_ended(store: ChatStore, state: State, words: str) -> None:
    chat = store.create_chat()
    store.add_message(chat.id, None, "assistant", "Bec", state=state)
    text = export_markdown(store, chat.id)
    assert text.startswith("# Untitled chat\n") and text.rstrip().endswith(f"{words}.*" if words else "Bec")


FENCES = [
    "```python\nprint(1)\n```",
    "```python\nprint(1)",
    "~~~~\n```\n~~~\nstill open",
    "````md\n```\ninner\n```\n````",
    "````md\n```\ninner",
    "- item\n  ```\n  open in a list",
    "> ```\n> open in a quote",
    "``` `not a fence",
    "text ``` text",
    "    ```\nindented code",
    "```\n   ```   \nafter",
    "```\n``` not an end",
    "`````",
]


@pytest.mark.parametrize("content", FENCES)
def test_fences_stay_and_swallow_no_turn(store: ChatStore, content: str) -> None:
    chat = store.create_chat(title="t")
    answer = store.add_message(chat.id, None, "assistant", content)
    store.add_message(chat.id, answer.id, "user", "the end")
    text = export_markdown(store, chat.id)
    assert content in text
    tokens = MarkdownIt().parse(text)
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["t", "Assistant", "You"]


def test_markdown_has_no_control_characters(store: ChatStore) -> None:
    chat = store.create_chat(title="\x9b1m", model="m\x1b", system="\x07")
    first = store.add_message(chat.id, None, "user", "".join(map(chr, range(0x100))))
    store.add_message(chat.id, first.id, "assistant", "x", thinking="\x1b[1m", model="\x1b")
    text = export_markdown(store, chat.id)
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in text)
