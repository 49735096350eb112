"""One message: its life from the first words to the end, and every text that it can have."""

from pathlib import Path

import pytest

from ebbtide.app.store import ChatStore, Message, UnknownMessage, open_store
from ebbtide.engine.messages import Timings, Usage
from tests.helpers.nasty_texts import NASTY

USAGE = Usage(prompt=10, cached=4, completion=3)
TIMINGS = Timings(first_token_s=0.5, decode_tok_s=12.5)


def begin_answer(store: ChatStore) -> Message:
    chat = store.create_chat()
    question = store.add_message(chat.id, None, "user", "Why?")
    return store.add_message(chat.id, question.id, "assistant", state="partial", model="tiny")


def test_an_answer_from_beginning_to_end(store: ChatStore) -> None:
    answer = begin_answer(store)
    assert (answer.state, answer.content, answer.usage, answer.timings) == ("partial", "", None, None)
    store.append_partial(answer.id, "Bec", "Hm")
    store.append_partial(answer.id, "ause", "m.")
    half = store.get_message(answer.id)
    assert (half.content, half.thinking, half.state) == ("Because", "Hmm.", "partial")
    done = store.finish_message(
        answer.id, content="Because.", finish_reason="stop", usage=USAGE, timings=TIMINGS
    )
    assert done == store.get_message(answer.id)
    assert (done.content, done.thinking, done.state) == ("Because.", "Hmm.", "complete")
    assert (done.usage, done.timings, done.finish_reason, done.model) == (USAGE, TIMINGS, "stop", "tiny")


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_an_answer_that_ends_early_keeps_its_words(store: ChatStore, state: str) -> None:
    answer = begin_answer(store)
    store.append_partial(answer.id, "Bec")
    ended = store.finish_message(answer.id, state="stopped" if state == "stopped" else "failed")
    assert (ended.content, ended.state) == ("Bec", state)


def test_a_rate_that_is_no_number_is_left_out(store: ChatStore) -> None:
    answer = begin_answer(store)
    store.finish_message(answer.id, usage=USAGE, timings=Timings(decode_tok_s=float("nan")))
    assert store.get_message(answer.id).timings is None
    assert store.get_message(answer.id).usage == USAGE


def test_texts_are_kept_as_they_are(store: ChatStore, file: Path) -> None:
    for text in (*NASTY, "a\0b\0", "\0", "x" * 1_000_000, "\U0010ffff\ufffe"):
        answer = begin_answer(store)
        store.append_partial(answer.id, text, text)
        store.append_partial(answer.id, text)
        with open_store(file) as again:
            read = again.get_message(answer.id)
        assert (read.content, read.thinking) == (text + text, text)
        store.finish_message(answer.id, content=text)
        assert store.get_message(answer.id).content == text


def test_lone_surrogates_become_replacement_characters(store: ChatStore) -> None:
    answer = begin_answer(store)
    store.append_partial(answer.id, "a\ud800", "\udfff")
    assert store.get_message(answer.id).content == "a\ufffd"
    store.finish_message(answer.id, content="\udc80b", model="\ud800")
    read = store.get_message(answer.id)
    assert (read.content, read.thinking, read.model) == ("\ufffdb", "\ufffd", "\ufffd")
    store.add_message(answer.chat_id, answer.id, "user", "\ud83d")
    assert store.history(limit=1) == ["\ufffd"]
    assert store.search("\ud83d")[0].role == "user"


def test_unknown_messages(store: ChatStore) -> None:
    answer = begin_answer(store)
    other = store.create_chat()
    with pytest.raises(UnknownMessage, match="77"):
        store.append_partial(77, "x")
    with pytest.raises(UnknownMessage):
        store.finish_message(77)
    with pytest.raises(UnknownMessage):
        store.path(77)
    with pytest.raises(UnknownMessage):
        store.leaf_below(77)
    with pytest.raises(UnknownMessage):
        store.add_message(other.id, answer.id, "user", "a parent in another chat")
    with pytest.raises(UnknownMessage):
        store.set_active(other.id, answer.id)
    assert store.get_chat(other.id).message_count == 0


def test_an_answer_touches_its_chat(store: ChatStore, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = begin_answer(store)
    monkeypatch.setattr("ebbtide.app.store.store.now_ms", lambda: 2_000_000_000_000)
    store.finish_message(answer.id, content="Because.")
    assert store.get_chat(answer.chat_id).updated_ms == 2_000_000_000_000
    assert store.get_message(answer.id).created_ms < 2_000_000_000_000
