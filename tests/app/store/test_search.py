"""Search: words and beginnings of words, every script, any query, with the index and without."""

import string
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.app.store import ChatStore, Hit, memory_store, open_store
from ebbtide.app.store import search as search_module
from ebbtide.app.store.snippets import snippet
from tests.helpers.nasty_texts import ALPHABET, NASTY


@pytest.fixture(params=["index", "reading"])
def store(request: pytest.FixtureRequest, file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatStore]:
    """Once with the index, once with an SQLite that has no FTS5."""
    if request.param == "reading":
        monkeypatch.setattr(search_module, "MODULE", "no_such_module")
    with open_store(file) as opened:
        assert opened._use_index is (request.param == "index")
        yield opened


def say(store: ChatStore, *texts: str) -> str:
    chat = store.create_chat(title="a chat")
    parent = None
    for text in texts:
        parent = store.add_message(chat.id, parent, "user", text).id
    return chat.id


def shown(hits: list[Hit]) -> list[str]:
    return sorted(hit.snippet.text for hit in hits)


def marked(hit: Hit) -> list[str]:
    return [hit.snippet.text[begin:end] for begin, end in hit.snippet.marks]


def test_all_words_in_any_order_and_case(store: ChatStore) -> None:
    say(store, "The quick brown fox", "a quick answer", "fox only")
    assert shown(store.search("fox QUICK")) == ["The quick brown fox"]
    assert shown(store.search("quick")) == ["The quick brown fox", "a quick answer"]
    assert store.search("quick wolf") == []


def test_beginnings_of_words(store: ChatStore) -> None:
    say(store, "Deserialization of events")
    [hit] = store.search("deser ev")
    assert marked(hit) == ["Deser", "ev"]


def test_titles_come_first(store: ChatStore) -> None:
    say(store, "about tides")
    chat = store.create_chat(title="Ebb and Tides")
    hits = store.search("tid")
    assert [(hit.message_id is None, hit.snippet.text) for hit in hits] == [
        (True, "Ebb and Tides"),
        (False, "about tides"),
    ]
    assert (hits[0].chat_id, hits[0].title, marked(hits[0])) == (chat.id, "Ebb and Tides", ["Tid"])
    store.rename_chat(chat.id, "Other")
    assert [hit.title for hit in store.search("tid")] == ["a chat"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("日本語のテキスト、漢字。", "漢字"),
        ("中文字符混排", "字符"),
        ("한국어 텍스트", "국어"),
        ("ภาษาไทย", "ไทย"),
        ("thumbs 👍🏽 up", "👍"),
        ("if (a->b != c)", "a->b"),
        ("x = y -> z", "->"),
        ("naïve Übung", "ÜBUNG"),
        ("СЪЕШЬ ещё этих", "съешь"),
        ("path/to/some_file.py", "some_file.py"),
        ("a\0hidden word", "hidden"),
    ],
)
def test_every_script_and_signs(store: ChatStore, text: str, query: str) -> None:
    say(store, "something else", text)
    assert [hit.role for hit in store.search(query)] == ["user"]


QUERIES = [
    "", " ", '"a b', "NEAR(", "NEAR(a b, 2)", "a AND", "OR", "NOT x", "a*", "*", "^a", "content:a", "-a",
    "(a", "a)", "{a}", '"', '""', "'", ";--", "%", "_", "\\", "a\0b", "\ud800", "\x1b[2J", "a" * 10_000,
    "a " * 10_000, '" OR 1 --', "👍", "é́", "\ufffe", *NASTY,
]  # fmt: skip


def test_any_text_is_a_query(store: ChatStore) -> None:
    say(store, "a b c", *QUERIES)
    for query in QUERIES:
        assert isinstance(store.search(query), list)


def test_a_wildcard_is_a_sign(store: ChatStore) -> None:
    say(store, "100% sure", "snake_case")
    assert shown(store.search("%")) == ["100% sure"]
    assert shown(store.search("_")) == ["snake_case"]


def test_the_newest_text_is_found(store: ChatStore) -> None:
    chat_id = say(store, "question")
    answer = store.add_message(
        chat_id, store.get_chat(chat_id).head_id, "assistant", "first", state="partial"
    )
    assert [hit.message_id for hit in store.search("first")] == [answer.id]
    store.append_partial(answer.id, " second")
    assert [hit.message_id for hit in store.search("second")] == [answer.id]
    store.finish_message(answer.id, content="third")
    assert store.search("first") == [] and [hit.message_id for hit in store.search("third")] == [answer.id]
    assert store.leaf_below(answer.id) == answer.id


def test_the_limit_holds_for_titles_and_messages_together(store: ChatStore) -> None:
    for _ in range(3):
        store.create_chat(title="word")
    say(store, *["word"] * 5)
    assert [len(store.search("word", limit)) for limit in (0, 2, 4, 100)] == [0, 2, 4, 8]


def test_a_store_can_lose_and_regain_its_index(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an SQLite without FTS5 wrote is indexed later; what it removed leaves the index."""
    with open_store(file) as first:
        doomed = say(first, "removed meanwhile")
        assert first.search("removed")
    with open_store(file) as second:
        monkeypatch.setattr(second, "_use_index", False)
        second.delete_chat(doomed)
        say(second, "written meanwhile")
        assert second.search("written") and not second.search("removed")
    with open_store(file) as third:
        assert third.search("written") and not third.search("removed")
        third.delete_chat(third.create_chat().id)
        rows = third._database.read(lambda c: c.execute("SELECT content FROM message_index").fetchall())
        assert rows == [("written meanwhile",)]


WORDS = st.text(alphabet=string.ascii_lowercase + "0189", min_size=1, max_size=4)


@given(texts=st.lists(st.lists(WORDS, max_size=4), max_size=4), query=st.lists(WORDS, min_size=1, max_size=2))
def test_the_index_finds_what_reading_finds(texts: list[list[str]], query: list[str]) -> None:
    with memory_store() as store:
        chat = store.create_chat()
        store.rename_chat(chat.id, "!")
        wanted = []
        for words in texts:
            message = store.add_message(chat.id, None, "user", " ".join(words))
            if all(any(word.startswith(term) for word in words) for term in query):
                wanted.append(message.id)
        assert sorted(hit.message_id or 0 for hit in store.search(" ".join(query))) == wanted


@given(
    text=st.text(alphabet=ALPHABET, max_size=400), terms=st.lists(st.text(ALPHABET, min_size=1), min_size=1)
)
def test_snippets_are_one_safe_line_and_mark_the_terms(text: str, terms: list[str]) -> None:
    piece = snippet(text, terms)
    assert "\n" not in piece.text and len(piece.text) <= 122
    for begin, end in piece.marks:
        found = piece.text[begin:end]
        assert any(found.casefold() == term.casefold() or found.lower() == term.lower() for term in terms)


@pytest.mark.parametrize(
    ("title", "query", "text"),
    [
        ("How do I parse dates in Python without a library", "python", None),
        (
            "How do I parse dates of all the countries in the world in Python",
            "python",
            "How do I parse dates … the world in Python",
        ),
        ("A" * 60 + "needle", "needle", "A" * 20 + " … " + "A" * 16 + "needle"),
    ],
)
def test_a_title_is_shown_from_its_beginning(store: ChatStore, title: str, query: str, text: str) -> None:
    store.create_chat(title=title)
    [hit] = store.search(query)
    assert hit.snippet.text == (text or title)
    assert [word.casefold() for word in marked(hit)] == [query]


def test_a_snippet_shows_the_surroundings() -> None:
    text = "before " * 50 + "the needle" + " after" * 50
    piece = snippet(text, ["needle"])
    assert piece.text.startswith("…before ") and piece.text.endswith("…")
    assert [piece.text[begin:end] for begin, end in piece.marks] == ["needle"]
    assert snippet("a cat and a banana", ["a"]).marks == ((0, 1), (6, 7), (10, 11)), "beginnings of words"
    assert snippet("xcat", ["cat"]).marks == ((1, 4),)
    assert snippet("no such word", ["needle"]).text == "no such word"
