"""However an answer ends, what is on the screen, in the store and in a copy is what has come of it.

The engine's answers break off at their worst places. The lines of the turn that streamed, with their styles,
are those of a turn that is mounted whole below it; so are those of the chat when it is opened again.
"""

from itertools import count
from pathlib import Path
from typing import Literal

import pytest
from textual.pilot import Pilot

from ebbtide.app import clipboard
from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.chat_app import ChatApp, PostEvent
from ebbtide.app.chat_keeper import ChatKeeper
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_tools import ChatTools
from ebbtide.app.conversation import Conversation
from ebbtide.app.store import ChatStore, open_store
from ebbtide.app.themes import LIGHT
from ebbtide.app.widgets.turns import AnswerTurn
from ebbtide.engine.client import EngineClient
from ebbtide.engine.messages import FinishReason, Load
from tests.helpers.chat_host import ask, press, ready, screen_of, settled, transcript_of, until
from tests.helpers.ended_process import ended_process
from tests.helpers.fake_engine import Script, command_line

SIZE = (80, 100)
CUT_OFF = [
    "Look:\n\n```python\ndef f():\n\n    return 1\n\n# not a heading\n",
    "See [one] and [two].\n\nWords.\n\n[two]: /2\n[one]: /1",
    "Before.\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n| 3 | **fo",
    "<think>\nfirst *one*\n\n```\ncode",
    "<think>\nwell\n</think>\n\nThe **answer** and its end\n=",
    "Heading\n---\n\nTwo\nlines\n--",
    "漢字、**かな**\n\n- 한국어 👩‍👩‍👧‍👦\n\n| 表 | 👍🏽 |\n|---|---|\n| 値 | e\u0301",
    "> ```\n> code\n>\n> more",
]
ANSWERS = {f"question {at}": text for at, text in enumerate(CUT_OFF)}
Lines = list[list[tuple[str, object]]]


def app_with(store: ChatStore, script: Script, chat_id: str = "") -> ChatApp:
    def make_session(post_engine: PostEvent, post_fetcher: PostEvent) -> ChatSession:
        client = EngineClient(command=command_line(script), on_event=post_engine)
        return ChatSession(client, Load("/models/tiny.gguf"), keeper=ChatKeeper(store))

    return ChatApp(make_session, "dark", tools=ChatTools(chat_id=chat_id))


@pytest.fixture
def store(tmp_path: Path) -> ChatStore:
    return open_store(tmp_path / "chats.db")


@pytest.fixture(autouse=True)
def no_desktop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(clipboard, "desktop_tool", lambda *_: [])


def lines_of(pilot: Pilot[None], turn: AnswerTurn) -> Lines:
    """Every segment of a turn: text and style."""
    region = turn.region
    strips = pilot.app.screen._compositor.render_strips()[region.y : region.bottom]
    assert len(strips) == region.height, "all of it is on the screen"
    cropped = [strip.crop(region.x, region.right).simplify() for strip in strips]
    return [[(part.text, part.style) for part in strip] for strip in cropped]


async def check_screen(pilot: Pilot[None], turn: AnswerTurn, text: str) -> None:
    """`turn` looks as one that is mounted with the whole of `text`."""
    whole = AnswerContent.of(text)
    told_with_a_stream_only = turn.content.thinking_s, turn.content.thinking_tokens
    whole.thinking_s, whole.thinking_tokens = told_with_a_stream_only
    whole_turn = AnswerTurn(whole, turn.message)
    transcript = transcript_of(pilot)
    await transcript.add(whole_turn)
    await until(pilot, lambda: whole_turn.is_whole)
    await settled(pilot)
    await transcript.reveal(turn)
    await settled(pilot)
    assert lines_of(pilot, turn) == lines_of(pilot, whole_turn), text
    await transcript.cut(whole_turn)


async def check_chat(pilot: Pilot[None], text: str) -> None:
    """The chat on the screen has this answer, and a copy of it is the same."""
    turn = answers(pilot)[-1]
    await until(pilot, lambda: turn.is_whole)
    await check_screen(pilot, turn, text)
    await check_copy(pilot, text)


def answers(pilot: Pilot[None]) -> list[AnswerTurn]:
    return [turn for turn in transcript_of(pilot).turns if isinstance(turn, AnswerTurn)]


async def check_copy(pilot: Pilot[None], text: str) -> None:
    answer = AnswerContent.of(text).answer.strip()
    if answer:
        pilot.app.copy_to_clipboard("something else")
        await ask(pilot, "/copy")
        await until(pilot, lambda: pilot.app.clipboard != "something else")
        assert pilot.app.clipboard == answer


def check_store(store: ChatStore, chat_id: str, text: str) -> None:
    whole = AnswerContent.of(text)
    record = store.whole_tree(chat_id)[-1]
    assert (record.role, record.content, record.thinking) == ("assistant", whole.answer, whole.thinking)


End = Literal["stop", "length", "context", "cancelled", "failed", "died", "left", "theme"]


def script_of(end: End, release: Path) -> Script:
    """Answers that end in this way, each when `release` has a file with its question's name."""
    reasons: dict[End, FinishReason] = {"length": "length", "context": "context"}
    match end:
        case "failed":
            return Script(answers=ANSWERS, after_answer="fail", released_in=str(release))
        case "died":
            return Script(answers=ANSWERS, after_answer="die", released_in=str(release))
        case "cancelled" | "left" | "theme":
            return Script(answers=ANSWERS, after_answer="hold")
        case _:
            reason = reasons.get(end, "stop")
            return Script(answers=ANSWERS, finish_reason=reason, released_in=str(release))


async def make_end(pilot: Pilot[None], end: End, text: str, release: Path) -> None:
    """Let the answer that streams end, once all of it has been drawn as it grows; returns when it has."""
    screen = screen_of(pilot)
    await until(pilot, lambda: screen.session.answer.text == text)
    await screen.transcript.draw()
    assert not answers(pilot)[-1].is_whole
    release.touch()
    if end == "theme":
        pilot.app.theme = LIGHT.name if pilot.app.theme != LIGHT.name else "ebbtide-dark"
    if end == "left":
        assert screen.session.keeper.chat is not None
        chat_id = screen.session.keeper.chat.id
        await screen.changes.new()
        await screen.changes.open(chat_id)
    elif end in ("cancelled", "theme"):
        press(pilot, "escape")
    if end == "context":
        await until(pilot, lambda: pilot.app.screen is not screen)
        press(pilot, "escape")  # leaves the ways out that are offered
        await until(pilot, lambda: pilot.app.screen is screen)
    await until(pilot, lambda: not screen.session.busy and screen.session.turns[-1].role == "assistant")
    await until(pilot, lambda: answers(pilot)[-1].message is not None)


@pytest.mark.parametrize("end", ["stop", "length", "context", "cancelled", "failed", "died", "left", "theme"])
async def test_streamed_is_whole_at_every_end(store: ChatStore, end: End, tmp_path: Path) -> None:
    chats: dict[str, str] = {}
    async with app_with(store, script_of(end, tmp_path)).run_test(size=SIZE) as pilot:
        await ready(pilot)
        screen = screen_of(pilot)
        for question, text in ANSWERS.items():
            await ask(pilot, question)
            await until(pilot, lambda: bool(screen.session.turns))
            await make_end(pilot, end, text, tmp_path / question)
            assert screen.session.keeper.chat is not None
            chats[screen.session.keeper.chat.id] = text
            check_store(store, screen.session.keeper.chat.id, text)
            await check_chat(pilot, text)
            await screen.changes.new()
    assert list(chats.values()) == CUT_OFF
    async with app_with(store, Script()).run_test(size=SIZE) as pilot:
        await ready(pilot)
        for chat_id, text in chats.items():
            await screen_of(pilot).changes.open(chat_id)
            await check_chat(pilot, text)


async def test_the_part_that_a_kill_leaves_is_whole_as_well(store: ChatStore) -> None:
    """All that had been saved when the app ended without a word."""
    chats: list[str] = []
    killed = ended_process()
    clock = count()  # a second goes by at every look: each piece is saved
    for text in CUT_OFF:
        keeper = ChatKeeper(store, now=lambda: float(next(clock)), window=killed)
        question = Conversation().add("user", "q")
        keeper.asked(question)
        keeper.answer_begins(question)
        content = AnswerContent()
        for piece in text:
            content.push(piece, 1)
            keeper.answer_grew(content)
        assert keeper.chat is not None and keeper.fault is None
        chats.append(keeper.chat.id)
    async with app_with(store, Script()).run_test(size=SIZE) as pilot:
        await ready(pilot)
        for chat_id, text in zip(chats, CUT_OFF, strict=True):
            check_store(store, chat_id, text)
            await screen_of(pilot).changes.open(chat_id)
            await check_chat(pilot, text)
