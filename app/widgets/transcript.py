"""The scrolling list of turns. It follows the answer until the reader scrolls up, then it stays there.

Only a window of the turns is mounted, because every mounted widget makes each key and each layout slower:

    turns:    0 ......... first ............ last ......... n
                          [ mounted, <= 60 )

A long turn counts as several.
"""

import asyncio
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Static

from ebbtide.app.greeting import GREETING
from ebbtide.app.widgets.answer_inks import AnswerInks
from ebbtide.app.widgets.reading_place import ReadingPlace
from ebbtide.app.widgets.turns import AnswerTurn, Entry, Note, UserTurn

MOST_MOUNTED = 60
"""Weight of what is mounted; a short turn weighs 1."""
FIRST_MOUNTED = 20
"""So much is mounted when a chat is opened; more comes when it is scrolled to."""
STEP = 15
"""So much is mounted, or let go, at once."""


class Greeting(Static):
    """What an empty chat shows."""

    def __init__(self) -> None:
        super().__init__(Content(GREETING), markup=False)


class Transcript(AnswerInks):
    """Holds UserTurn, AnswerTurn and Note widgets in order."""

    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self._turns: list[Entry] = []
        self._first = self._last = 0
        self._moving = False
        self._place = ReadingPlace(self)
        self._changing = asyncio.Lock()
        """The screen adds turns while this widget's own task moves the window."""

    def compose(self) -> ComposeResult:
        yield Greeting()

    def on_mount(self) -> None:
        self.watch(self, "scroll_y", self._scrolled, init=False)

    @property
    def turns(self) -> list[Entry]:
        """All of them, mounted or not."""
        return list(self._turns)

    def _size_updated(
        self, size: Size, virtual_size: Size, container_size: Size, layout: bool = True
    ) -> bool:
        """A second layout is of use only when the scroll bar comes or goes (see `SettledSize`)."""
        needs_bar = virtual_size.height > container_size.height
        is_other = needs_bar != self.show_vertical_scrollbar
        is_changed = super()._size_updated(size, virtual_size, container_size, layout=layout and is_other)
        if needs_bar != self.is_anchored:  # not by a watcher: without another layout none is told
            self.call_after_refresh(self._anchor_if_longer_than_view)
        if self._place.is_set:
            self.call_next(self._place.resized)  # a resize event does not come for every layout
        return is_changed

    @property
    def at_end(self) -> bool:
        """The newest turn is mounted and the view is at its end."""
        return self._last == len(self._turns) and self.scroll_y >= self.max_scroll_y - 1

    @property
    def follows(self) -> bool:
        """The newest is in view, or will be with the next layout; not while the reader has scrolled away."""
        if self.at_end:
            return True
        is_held = self.is_anchored and not self._anchor_released
        return is_held and self._last == len(self._turns)

    @property
    def rows_below(self) -> int:
        """Empty rows between the last turn and the end of the view."""
        last = next((turn for turn in reversed(self._turns) if turn.is_attached), None)
        return max(self.container_size.height - (last.virtual_region.bottom if last is not None else 0), 0)

    # --- what is in it

    async def add(self, turn: Entry) -> None:
        """Append a turn. A question brings the end into view again."""
        async with self._changing:
            for greeting in self.query(Greeting):
                await greeting.remove()
            await self._drop_passing()
            if isinstance(turn, Note) and self._has_just_said(turn):
                return
            self._turns.append(turn)
            if isinstance(turn, UserTurn):
                await self._to_end()
            elif self._last == len(self._turns) - 1 and (self.at_end or self._has_room):
                self._last += 1
                await self.mount(turn)
                await self._let_go_of_oldest()

    async def _drop_passing(self) -> None:
        """Notes at the end that what follows makes useless."""
        while self._turns and isinstance(last := self._turns[-1], Note) and last.passing:
            self._turns.pop()
            self._last = min(self._last, len(self._turns))
            self._first = min(self._first, self._last)
            if last.is_attached:
                await last.remove()

    async def drop(self, note: Note) -> None:
        """A passing note, if nothing followed it: what it told of has come to its end."""
        async with self._changing:
            if self._turns and self._turns[-1] is note:
                await self._drop_passing()

    def _has_just_said(self, note: Note) -> bool:
        """Whether the same stands among the notes behind the last turn."""
        for turn in reversed(self._turns):
            if not isinstance(turn, Note):
                return False
            if (turn.text, turn.kind) == (note.text, note.kind):
                return True
        return False

    async def show(self, turns: Sequence[Entry]) -> None:
        """Hold these and no others; the end is in view."""
        async with self._changing:
            await self._empty()
            self._turns = list(turns)
            await (self._to_end() if turns else self.mount(Greeting()))

    async def cut(self, first_gone: Entry) -> None:
        """Drop a turn and all behind it."""
        async with self._changing:
            at = self._turns.index(first_gone)
            gone, self._turns = self._turns[at:], self._turns[:at]
            self._last = min(self._last, at)
            self._first = min(self._first, self._last)
            await self.remove_children([turn for turn in gone if turn.is_attached])
            await self._to_end()

    async def clear(self) -> None:
        """Back to an empty chat."""
        async with self._changing:
            await self._empty()
            await self.mount(Greeting())

    async def _empty(self) -> None:
        self._turns, self._first, self._last = [], 0, 0
        self._place.forget()
        await self.remove_children()

    @property
    def _has_room(self) -> bool:
        return self._weight(self._first, self._last) < MOST_MOUNTED

    def _weight(self, first: int, last: int) -> int:
        return sum(turn.weight for turn in self._turns[first:last])

    def _back_from(self, last: int, weight: int) -> int:
        """The first of the turns before `last` that weigh `weight` together; at least one turn."""
        first = last
        while first > 0 and (first == last or self._weight(first - 1, last) <= weight):
            first -= 1
        return first

    def _on_from(self, first: int, weight: int) -> int:
        """The end of the turns from `first` on that weigh `weight` together; at least one turn."""
        last = first
        while last < len(self._turns) and (last == first or self._weight(first, last + 1) <= weight):
            last += 1
        return last

    def _in_view(self) -> tuple[int, int]:
        """first, end of the mounted turns that are seen: they stay, whatever they weigh."""
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.container_size.height
        seen = [
            at
            for at in range(self._first, self._last)
            if self._turns[at].virtual_region.bottom > top and self._turns[at].virtual_region.y < bottom
        ]
        return (seen[0], seen[-1] + 1) if seen else (self._last, self._first)

    async def draw(self) -> None:
        """Bring answers that still stream up to date."""
        for turn in self._turns[self._first : self._last]:
            if isinstance(turn, AnswerTurn) and not turn.is_whole:
                await turn.draw()

    # --- where the view stands

    @property
    def width_of_rows(self) -> int:
        return self.scrollable_content_region.width

    def turn_at_top(self) -> Entry | None:
        """The first turn in view."""
        return self._kept_turn(0, len(self._turns))

    async def to_end(self) -> None:
        """Mount the newest turns and go to the end."""
        async with self._changing:
            await self._to_end()
        self.anchor(self.max_scroll_y > 0)

    async def _to_end(self) -> None:
        self._place.forget()
        count = len(self._turns)
        if self._last != count or self._first == self._last:
            newest = self._back_from(count, FIRST_MOUNTED)
            reaches_end = self._first < self._last and self._last > newest
            await self._mount_window(self._first if reaches_end else newest, count)
        await self._let_go_of_oldest()
        self.scroll_end(animate=False)

    async def to_start(self) -> None:
        """Mount the oldest turns and go to the top."""
        async with self._changing:
            await self._mount_window(0, self._on_from(0, MOST_MOUNTED))
        self.anchor(False)
        self.scroll_home(animate=False)

    async def reveal(self, turn: Entry) -> None:
        """Mount a turn with its neighbours, if need be, and bring it into view."""
        at = self._turns.index(turn)
        async with self._changing:
            if not self._first <= at < self._last:
                first = self._back_from(at, STEP)
                await self._mount_window(first, max(at + 1, self._on_from(first, MOST_MOUNTED)))
        self.anchor(False)
        self.call_after_refresh(self.scroll_to_widget, self._turns[at], animate=False)

    def _anchor_if_longer_than_view(self) -> None:
        """A short chat stands at the top; an anchored one would be pushed down to the prompt."""
        if self._place.is_set:
            return
        longer = self.max_scroll_y > 0
        if longer != self.is_anchored and (not longer or self._last == len(self._turns)):
            self.anchor(longer)
            if not longer:
                self.scroll_to(y=0, animate=False, immediate=True, force=True)

    # --- which turns are mounted

    def _scrolled(self) -> None:
        """Near an end of the window: mount what lies beyond it."""
        self._place.scrolled()
        view = max(self.container_size.height, 1)
        if self._moving or not self._turns:
            return
        if self.scroll_y < view and self._first > 0:
            self._moving = True
            self.call_next(self._extend_up)
        elif self.scroll_y > self.max_scroll_y - view and self._last < len(self._turns):
            self._moving = True
            self.call_next(self._extend_down)

    async def _extend_up(self) -> None:
        async with self._changing:
            first = self._back_from(self._first, STEP)
            last = max(self._on_from(first, MOST_MOUNTED), self._in_view()[1])
            await self._move_window(first, min(self._last, last))

    async def _extend_down(self) -> None:
        async with self._changing:
            last = self._on_from(self._last, STEP)
            first = min(self._back_from(last, MOST_MOUNTED), self._in_view()[0])
            await self._move_window(max(self._first, first), last)

    async def _let_go_of_oldest(self) -> None:
        """Keep to the limit while the end is followed; the view stays at the end by its anchor."""
        if self._last - self._first > 1 and self._weight(self._first, self._last) > MOST_MOUNTED:
            first = self._back_from(self._last, MOST_MOUNTED - STEP)
            if first > self._first:
                await self._mount_window(first, self._last)

    async def _move_window(self, first: int, last: int) -> None:
        """Change the window so that what is in view does not move, not for one frame."""
        try:
            with self.app.batch_update():
                kept = self._kept_turn(first, last)
                if kept is None:  # the chat was changed meanwhile
                    return
                offset = kept.virtual_region.y - self.scroll_offset.y
                await self._mount_window(first, last)
                # The batch paints nothing, so the new heights are known and the view is put right before
                # anybody sees it.
                self.screen._refresh_layout()
                self.scroll_to(y=kept.virtual_region.y - offset, animate=False, immediate=True, force=True)
                self.screen._refresh_layout()
        finally:
            self._moving = False

    def _kept_turn(self, first: int, last: int) -> Entry | None:
        """The first turn in view that stays mounted."""
        staying = self._turns[max(first, self._first) : min(last, self._last)]
        top = self.scroll_offset.y
        return next((turn for turn in staying if turn.virtual_region.bottom > top), None)

    async def _mount_window(self, first: int, last: int) -> None:
        """Let go of turns outside the window (fresh copies take their places) and mount those inside."""
        gone: list[Widget] = []
        for at in range(self._first, self._last):
            if not first <= at < last and self._turns[at].is_mounted:
                gone.append(self._turns[at])
                self._turns[at] = self._turns[at].fresh()
        with self.app.batch_update():
            await self.remove_children(gone)
            mounted = [turn for turn in self._turns[first:last] if turn.is_attached]
            before = [turn for turn in self._turns[first:last] if not turn.is_attached]
            if mounted:
                above = self._turns[first : self._turns.index(mounted[0])]
                before = self._turns[self._turns.index(mounted[-1]) + 1 : last]
                if above:
                    await self.mount_all(above, before=mounted[0])
            if before:
                await self.mount_all(before)
        self._first, self._last = first, last
