"""Choose one of many: type to narrow, arrows to move, Enter to take. Chats, models, commands, history."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Paste, Resize
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from ebbtide.app.safe_text import safe_line, visible
from ebbtide.app.screens.over_chat import leave_prompt_in_view
from ebbtide.app.widgets.resting_input import RestingInput

MOST_SHOWN = 200
MARK = "▸ "
"""In front of the row that Enter takes: it is seen without colours too."""
NOTHING = "Nothing here has these words."


class Choice(NamedTuple):
    """One row: its value, what it is called, and a detail beside it."""

    value: str
    name: str
    detail: str = ""


Find = Callable[[str], list[Choice]]
"""What there is for the words that were typed; called at each key, so it must be quick."""


def narrowing(choices: Sequence[Choice]) -> Find:
    """Those that have all typed words, in their order."""

    def find(query: str) -> list[Choice]:
        words = query.casefold().split()
        return [
            choice
            for choice in choices
            if all(word in f"{choice.name} {choice.detail}".casefold() for word in words)
        ]

    return find


class SafeInput(RestingInput):
    """A line in which pasted control characters do not arrive."""

    def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(safe_line(event.text))


class Picker(ModalScreen[str | None]):
    """Ends with the value of the row that was taken, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", show=False),
        Binding("ctrl+c", "leave", "Close", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("ctrl+p", "move(-1)", "Up", show=False, priority=True),
        Binding("ctrl+n", "move(1)", "Down", show=False, priority=True),
        Binding("pageup", "page(-1)", "Page up", show=False, priority=True),
        Binding("pagedown", "page(1)", "Page down", show=False, priority=True),
    ]

    def __init__(self, title: str, find: Find, typed: str = "", nothing: str = NOTHING) -> None:
        """`nothing`: what is said where no row has the words that were typed."""
        super().__init__()
        self._nothing = nothing
        self._title = title
        self._find = find
        self._typed = typed
        self.choices: list[Choice] = []
        self._marked: int | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(Content(safe_line(self._title)), markup=False, classes="picker-title")
            yield SafeInput(
                value=self._typed, placeholder="type to narrow", compact=True, select_on_focus=False
            )
            yield OptionList(compact=True)

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self.query_one(Input).focus()
        self._fill(self._typed)

    def on_resize(self, event: Resize) -> None:
        leave_prompt_in_view(self, event.size.height)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._fill(event.value)

    def _fill(self, query: str) -> None:
        """The name on the left, the detail on the right; one line each."""
        self.choices = self._find(query)[:MOST_SHOWN]
        rows = self.query_one(OptionList)
        rows.clear_options()
        self._marked = 0 if self.choices else None
        rows.add_options([Option(self._row(choice, at == 0)) for at, choice in enumerate(self.choices)])
        if query.strip() and not self.choices:
            rows.add_option(Option(Content(self._nothing), disabled=True))
        rows.highlighted = 0 if self.choices else None

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """The mark goes with the highlight, which has nothing but a colour."""
        rows = self.query_one(OptionList)
        for at in (self._marked, rows.highlighted):
            if at is not None and at < len(self.choices):
                row = self._row(self.choices[at], at == rows.highlighted)
                rows.replace_option_prompt_at_index(at, row)
        self._marked = rows.highlighted

    def _row(self, choice: Choice, is_chosen: bool) -> Content:
        width = max(min(self.app.size.width - 8, 88), 10) - len(MARK)
        detail = Content(safe_line(choice.detail))
        room = max(width - detail.cell_length - 2, 8)
        name = Content(visible(choice.name).replace("\n", " ")).truncate(room, ellipsis=True)
        gap = " " * max(width - name.cell_length - detail.cell_length, 2)
        return Content.assemble(MARK if is_chosen else " " * len(MARK), name, gap, detail)

    def on_input_submitted(self) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self.choices):
            self.dismiss(self.choices[at].value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.choices[event.option_index].value)

    def action_leave(self) -> None:
        self.dismiss(None)

    def action_move(self, step: int) -> None:
        if not self.choices:
            return
        rows = self.query_one(OptionList)
        rows.action_cursor_up() if step < 0 else rows.action_cursor_down()

    def action_page(self, step: int) -> None:
        rows = self.query_one(OptionList)
        at, last = rows.highlighted or 0, len(self.choices) - 1
        if last >= 0:
            rows.highlighted = min(max(at + step * max(rows.size.height - 1, 1), 0), last)
