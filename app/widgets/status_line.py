"""One line about model and chat: name, quality, state, title, speed, context; or for a moment a hint."""

from typing import ClassVar

import msgspec
from textual.content import Content
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_text import describe_progress, share_of
from ebbtide.app.phase import BUSY, Phase
from ebbtide.app.safe_text import safe_line
from ebbtide.app.stages import state_word
from ebbtide.app.token_counts import Cost
from ebbtide.app.widgets.squeeze import Step, shorter, squeeze

HINT_S = 4.0
NOTE_HINT_S = 2 * HINT_S
"""A remark is longer than a hint."""
WIDE_CELLS = 90
"""Room for a hint and the figures."""
NEARLY_FULL_SHARE, FULL_SHARE = 0.8, 0.98
GAP_CELLS = 2
"""At least, between what is on the left and the figures."""
LEAST_NAME_CELLS, LEAST_TITLE_CELLS, LONGEST_TITLE = 6, 10, 60
NOT_YET = {Phase.STARTING, Phase.FETCHING, Phase.LOADING}
"""A question that is sent now waits for the model."""

STEPS: tuple[Step, ...] = (
    ("title", 0),
    ("speed", 0),
    ("name", 1),
    ("context", 2),
    ("state", 0),
    ("detail", 1),
    ("quality", 0),
    ("name", 0),
    ("context", 0),
    ("detail", 0),
)
"""What gives way where there is little room, the first first; the state, in its shortest wording, never."""


SPEAKING = (Phase.ANSWERING, Phase.STOPPING)
SILENT_S = 15.0
"""A token takes less on any machine that anybody would wait for."""


class Status(msgspec.Struct, frozen=True):
    """What the line draws: an immutable picture of a session."""

    name: str = ""
    quality: str = ""
    """In what precision the model answers, or will once it is loaded; empty where that is exact."""
    phase: Phase = Phase.STARTING
    detail: str = ""
    speed_tok_s: float = 0.0
    context_used: int = 0
    context_size: int = 0
    draft: Cost = Cost()
    """Of what is being written in the prompt; 0 where it is not worth a word."""
    title: str = ""
    """Of the chat."""
    share: str = ""
    """The figure of `detail` alone, for where there is no room for its words."""
    word: str = ""
    """For what the model does, where that is not the phase's own."""
    waits: bool = False
    """A question has been sent, and waits for the model."""
    is_estimate: bool = False
    """The engine has neither read nor counted the chat yet: `context_used` is what it will be, about."""


def status_of(session: ChatSession, fallback_name: str) -> Status:
    """Take the picture."""
    snapshot, loaded = session.progress, session.loaded
    reading = session.phase is Phase.READING
    detail = describe_progress(session)
    if reading and snapshot is not None and snapshot.prompt_tokens:
        detail = f"{snapshot.prompt_done:,}/{snapshot.prompt_tokens:,}"
    speed = 0.0 if snapshot is None else (snapshot.prefill_tok_s if reading else snapshot.decode_tok_s)
    context = session.context
    chat = session.keeper.chat
    return Status(
        title=safe_line(chat.title)[:LONGEST_TITLE] if chat is not None else "",
        word=word_of(session),
        share=detail if reading else share_of(session),
        waits=session.exchange.waiting and session.phase in NOT_YET,
        name=safe_line(loaded.name if loaded is not None else fallback_name),
        quality="" if session.phase is Phase.STARTING else quality_word(session.load.quality),
        phase=session.phase,
        detail=detail,
        speed_tok_s=speed,
        context_used=context.tokens,
        draft=session.draft,
        is_estimate=context.is_estimate and context.tokens > 0,
        context_size=loaded.ctx if loaded is not None else 0,
    )


class StatusLine(Widget):
    """Draws a `Status`: the model on the left, figures on the right.

    Hints stand here and not in a window of their own, which would cover what they are about.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "status--name",
        "status--ready",
        "status--busy",
        "status--bad",
        "status--figure",
        "status--hint",
    }

    status: reactive[Status] = reactive(Status())
    hint: reactive[str] = reactive("")
    _hint_ends: Timer | None = None

    def say(self, hint: str, seconds: float = HINT_S) -> None:
        """Show `hint` in the place of the model for so long."""
        if self._hint_ends is not None:
            self._hint_ends.stop()
        self.hint = safe_line(hint)
        self._hint_ends = self.set_timer(seconds, self._end_hint)

    def unsay(self, hint: str) -> None:
        """It is true no longer: what is said now stays if it is another one."""
        if self.hint == safe_line(hint):
            self.say("")

    def _end_hint(self) -> None:
        self.hint = ""

    def watch_hint(self) -> None:
        """Where there is no room for the line, there is for a hint."""
        self.set_class(bool(self.hint), "-hinting")

    def render(self) -> Content:
        width = self.content_size.width
        if self.hint and width < WIDE_CELLS:
            return self._hint().truncate(width, ellipsis=True)
        said = squeeze(self._wordings(), STEPS, width - GAP_CELLS)
        left = self._left(said).truncate(width, ellipsis=True)
        right = self._figures(said)
        gap = " " * max(width - left.cell_length - right.cell_length, 0)
        return Content.assemble(left, gap, right)

    def _wordings(self) -> dict[str, list[str]]:
        """All that the line may say; a hint stands in the place of everything on the left."""
        status = self.status
        speed = f"{status.speed_tok_s:.1f} tok/s" if status.speed_tok_s > 0 else ""
        right = {"speed": [speed and f"{speed}   ", ""], "context": _contexts(status)}
        if self.hint:
            return {
                "name": [self.hint, *shorter(self.hint, LEAST_NAME_CELLS)],
                "quality": [""],
                "state": [""],
                "detail": [""],
                "title": [""],
                **right,
            }
        return {
            "name": [*(f"{name}  " for name in shorter(status.name, LEAST_NAME_CELLS)), ""],
            "quality": [status.quality and f"{status.quality}  ", ""],
            "state": [f"{self._mark()} {words}" for words in _states(status)],
            "detail": [words and f"  {words}" for words in (status.detail, status.share, "")],
            "title": [*(f"  “{title}”" for title in _titles(status.title)), ""],
            **right,
        }

    def _left(self, said: dict[str, str]) -> Content:
        if self.hint:
            return Content.styled(said["name"], self.get_visual_style("status--hint"))
        figure = self.get_visual_style("status--figure")
        return Content.assemble(
            (said["name"].rstrip(), self.get_visual_style("status--name")),
            "  " if said["name"] else "",
            (said["quality"], figure),
            (said["state"], self.get_visual_style(self._state_class())),
            (said["detail"], figure),
            (said["title"], figure),
        )

    def _hint(self) -> Content:
        return Content.styled(self.hint, self.get_visual_style("status--hint"))

    def _figures(self, said: dict[str, str]) -> Content:
        """Speed and context; a word at its end says that it is filling up."""
        figure = self.get_visual_style("status--figure")
        word = _fullness_of(self.status)
        context = said["context"].removesuffix(word) if word else said["context"]
        bad = word if said["context"] else ""
        return Content.assemble(
            (said["speed"], figure), (context, figure), (bad, self.get_visual_style("status--bad"))
        )

    def _mark(self) -> str:
        """A sign that goes with the state, so that colour is not needed to read it."""
        if self.status.phase in (Phase.DIED, Phase.FAILED):
            return "✗"
        return "●" if self.status.phase is Phase.READY else "◐"

    def _state_class(self) -> str:
        if self.status.phase in (Phase.DIED, Phase.FAILED):
            return "status--bad"
        return "status--busy" if self.status.phase in BUSY or self.status.detail else "status--ready"


def word_of(session: ChatSession) -> str:
    """A stage that has a name of its own: the starter is fetched first, then checked, unpacked, built; and an
    engine that is not heard of while words should come, such as one that somebody stopped.
    """
    if session.phase in SPEAKING and session.silent_s >= SILENT_S:
        return f"nothing heard for {session.silent_s:.0f} s"
    progress = session.model.progress
    under_way = progress is not None and session.phase in NOT_YET
    return state_word(progress.stage) if progress is not None and under_way else ""


def quality_word(quality: str) -> str:
    """What is said of it beside a name: exact is the usual one, of which nothing is."""
    return "" if quality == "exact" else safe_line(quality)


def _states(status: Status) -> list[str]:
    """What the model does, and whether somebody waits for it."""
    word = status.word or str(status.phase)
    if status.waits:
        return [f"your question waits for the model: {word}", f"waits: {word}"]
    return [word]


def _titles(title: str) -> list[str]:
    return shorter(title, LEAST_TITLE_CELLS) if title else []


def _contexts(status: Status) -> list[str]:
    """How full the context is: with what is being written, without, without its name, in a word."""
    if not status.context_size:
        return [""]
    # A chat may be longer than the context, which then is full.
    used = f"{'~' if status.is_estimate else ''}{min(status.context_used, status.context_size):,}"
    draft = f" + {status.draft.figure}" if status.draft.tokens else ""
    word = _fullness_of(status)
    end = f" / {status.context_size:,}{' ' if word else ''}{word}"
    return [f"context {used}{draft}{end}", f"context {used}{end}", f"{used}{end}", word]


def _fullness_of(status: Status) -> str:
    return fullness(status.context_used, status.context_size, status.draft.tokens)


def fullness(used: int, size: int, draft: int = 0) -> str:
    """A word for a context that is filling up; empty while there is room. `draft`: what is sent next."""
    if size and draft and used + draft >= size:
        return "too long"
    share = used / size if size else 0.0
    if share >= FULL_SHARE:
        return "full"
    return f"{share:.0%}" if share >= NEARLY_FULL_SHARE else ""
