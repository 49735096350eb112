"""One line about the model: name, what it does, speed, context; or for a moment a hint in its place."""

from typing import ClassVar

import msgspec
from textual.content import Content
from textual.reactive import reactive
from textual.timer import Timer
from textual.widget import Widget

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_text import describe_progress
from ebbtide.app.phase import BUSY, Phase
from ebbtide.app.safe_text import safe_line
from ebbtide.app.token_counts import Cost

HINT_S = 4.0
WIDE_CELLS = 90
"""Room for a hint and the figures."""
NEARLY_FULL_SHARE, FULL_SHARE = 0.8, 0.98


class Status(msgspec.Struct, frozen=True):
    """What the line draws: an immutable picture of a session."""

    name: str = ""
    phase: Phase = Phase.STARTING
    detail: str = ""
    speed_tok_s: float = 0.0
    context_used: int = 0
    context_size: int = 0
    draft: Cost = Cost()
    """Of what is being written in the prompt; 0 where it is not worth a word."""
    is_estimate: bool = False
    """Nothing of the chat was read by the engine yet: `context_used` is what it will be, about."""


def status_of(session: ChatSession, fallback_name: str) -> Status:
    """Take the picture."""
    snapshot, loaded = session.snapshot, session.loaded
    reading = session.phase is Phase.READING
    detail = describe_progress(session)
    if reading and snapshot is not None and snapshot.prompt_tokens:
        detail = f"{snapshot.prompt_done:,}/{snapshot.prompt_tokens:,}"
    speed = 0.0 if snapshot is None else (snapshot.prefill_tok_s if reading else snapshot.decode_tok_s)
    used = session.context_used
    return Status(
        name=safe_line(loaded.name if loaded is not None else fallback_name),
        phase=session.phase,
        detail=detail,
        speed_tok_s=speed,
        context_used=used,
        draft=session.draft,
        is_estimate=snapshot is None and used > 0,
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

    def _end_hint(self) -> None:
        self.hint = ""

    def watch_hint(self) -> None:
        """Where there is no room for the line, there is for a hint."""
        self.set_class(bool(self.hint), "-hinting")

    def render(self) -> Content:
        right = self._figures()
        room = self.content_size.width - right.cell_length
        left = self._left().truncate(max(room - 1 if right else room, 0), ellipsis=True)
        gap = " " * max(self.content_size.width - left.cell_length - right.cell_length, 1)
        return Content.assemble(left, gap, right)

    def _left(self) -> Content:
        if self.hint:
            return Content.styled(self.hint, self.get_visual_style("status--hint"))
        status = self.status
        return Content.assemble(
            (status.name, self.get_visual_style("status--name")),
            "  ",
            (self._mark(), self.get_visual_style(self._state_class())),
            (f" {status.phase}", self.get_visual_style(self._state_class())),
            (f"  {status.detail}" if status.detail else "", self.get_visual_style("status--figure")),
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

    def _figures(self) -> Content:
        """Speed and context; how full the context is stands there in words too. A hint needs the room."""
        if self.hint and self.content_size.width < WIDE_CELLS:
            return Content()
        status, style = self.status, self.get_visual_style("status--figure")
        parts = [(f"{status.speed_tok_s:.1f} tok/s   ", style)] if status.speed_tok_s > 0 else []
        if status.context_size:
            about = "~" if status.is_estimate else ""
            draft = f" + {status.draft.figure}" if status.draft.tokens else ""
            parts.append((f"context {about}{status.context_used:,}{draft} / {status.context_size:,}", style))
            word = fullness(status.context_used, status.context_size, status.draft.tokens)
            if word:
                parts.append((f" {word}", self.get_visual_style("status--bad")))
        return Content.assemble(*parts)


def fullness(used: int, size: int, draft: int = 0) -> str:
    """A word for a context that is filling up; empty while there is room. `draft`: what is sent next."""
    if size and draft and used + draft >= size:
        return "too long"
    share = used / size if size else 0.0
    if share >= FULL_SHARE:
        return "full"
    return f"{share:.0%}" if share >= NEARLY_FULL_SHARE else ""
