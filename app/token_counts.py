"""What texts cost: as the engine has counted them, and until it has, about."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ebbtide.app.token_rate import TokenRate, usual_tokens
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.messages import Command, Count, CountChat, Counted, Failed, Turn

MOST_CHARACTERS = 4 << 20
"""Texts that are longer together are longer than any context, and not counted."""
MOST_KEPT_CHARACTERS, MOST_KEPT_TEXTS = 4 * MOST_CHARACTERS, 500
"""So much is remembered with its tokens."""
MOST_WANTED = 16
"""Wishes of one moment: a list's rows and a prompt's parts. Older ones are of a prompt that has changed."""


class Cost(NamedTuple):
    """So many tokens, or about so many."""

    tokens: int = 0
    is_estimate: bool = False

    @property
    def figure(self) -> str:
        return f"{'~' if self.is_estimate else ''}{self.tokens:,}"

    def __str__(self) -> str:
        return f"{self.figure} token{'' if self.tokens == 1 else 's'}"


class TokenCounts:
    """Asks for what it does not know, one question at a time; `send` passes commands to the engine.

    While no model is loaded, everything is an estimate.
    """

    def __init__(
        self, send: Callable[[Command], None], next_request_id: Callable[[], int], rate: TokenRate
    ) -> None:
        self._send, self._next_request_id, self._rate = send, next_request_id, rate
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._estimates: OrderedDict[str, int] = OrderedDict()
        self._is_loaded = False
        self._asked: tuple[int, list[str]] = (0, [])
        """The question that is not answered yet."""
        self._wanted: list[str] = []
        """What to ask next."""
        self._chat: tuple[str, ...] = ()
        """The texts of the whole chat that was asked for last."""
        self._chat_asked = self._chat_usual = 0
        self._chat_tokens: int | None = None

    def begin(self) -> None:
        """A model is loaded: its tokens are others."""
        self.end()
        self._is_loaded = True

    def end(self) -> None:
        """There is no model any more."""
        self._counts.clear()
        self._chat, self._chat_asked, self._chat_tokens = (), 0, None
        self._is_loaded, self._asked, self._wanted = False, (0, []), []

    def cost(self, texts: Sequence[str]) -> Cost:
        """Of all together. What is not known is asked for; `take` hears of it."""
        unknown = [text for text in texts if text and text not in self._counts]
        if unknown and sum(map(len, texts)) <= MOST_CHARACTERS:
            self._want(unknown)
        known = sum(self._counts[text] for text in texts if text in self._counts)
        return Cost(known + sum(map(self._estimate, unknown)), bool(unknown))

    def estimate(self, texts: Sequence[str]) -> Cost:
        """Of all together, without asking anybody."""
        return Cost(sum(map(self._estimate, texts)), True)

    def about(self, usual: int) -> Cost:
        """Of a text that is not at hand, from its usual tokens."""
        return Cost(self._rate.tokens(usual), True)

    def chat(self, texts: tuple[str, ...], usual: int, turns: Callable[[], list[Turn]]) -> int | None:
        """Tokens of a whole chat with all that the model's template adds; None until the engine has counted
        it, which it is asked once. `texts` tell chats apart; `usual` are their usual tokens.

        Not while an answer is written: the engine counts between two steps.
        """
        if not self._is_loaded or sum(map(len, texts)) > MOST_CHARACTERS:
            return None
        if texts != self._chat:
            self._chat, self._chat_usual, self._chat_tokens = texts, usual, None
            self._chat_asked = self._next_request_id()
            with suppress(EbbtideError):  # what no frame can carry is refused when it is sent, with reasons
                self._send(CountChat(self._chat_asked, turns()))
        return self._chat_tokens

    def _take_chat(self, event: Counted | Failed) -> None:
        """A template that refuses the chat says so when it is sent; until then it stays an estimate."""
        self._chat_asked = 0
        if isinstance(event, Counted):
            self._chat_tokens = event.tokens[0]
            self._rate.learn(self._chat_usual, self._chat_tokens)

    def take(self, event: Counted | Failed) -> bool:
        """Take the answer. False: it is none of these questions."""
        if self._chat_asked and event.request_id == self._chat_asked:
            self._take_chat(event)
            return True
        request_id, texts = self._asked
        if not request_id or event.request_id != request_id:
            return False
        self._asked = (0, [])
        if isinstance(event, Failed):
            self.end()  # whoever cannot count is not asked again
            return True
        for text, tokens in zip(texts, event.tokens, strict=False):
            _keep(self._counts, text, tokens)
        self._ask()
        return True

    def _want(self, texts: Iterable[str]) -> None:
        fresh = [text for text in texts if text not in self._asked[1] and text not in self._wanted]
        self._wanted = [*self._wanted, *fresh][-MOST_WANTED:]
        self._ask()

    def _ask(self) -> None:
        if self._asked[0] or not self._wanted or not self._is_loaded:
            return
        self._asked, self._wanted = (self._next_request_id(), self._wanted), []
        try:
            self._send(Count(*self._asked))
        except EbbtideError:  # what no frame can carry is refused when it is sent, with reasons
            self._asked = (0, [])

    def _estimate(self, text: str) -> int:
        usual = self._estimates.get(text)
        if usual is None:
            usual = usual_tokens(text)
            _keep(self._estimates, text, usual)
        return self._rate.tokens(usual)


def _keep(table: OrderedDict[str, int], text: str, tokens: int) -> None:
    """Remember it, and forget the oldest where it is too much."""
    table[text] = tokens
    room = MOST_KEPT_CHARACTERS - sum(map(len, table))
    while room < 0 or len(table) > MOST_KEPT_TEXTS:
        oldest, _ = table.popitem(last=False)
        room += len(oldest)
