"""Choosing a turn with the keyboard, and what is done with it."""

from typing import TYPE_CHECKING

from ebbtide.app.code_blocks import code_blocks
from ebbtide.app.turns_view import text_of_turn
from ebbtide.app.widgets.turn_chooser import Deed, TurnChooser
from ebbtide.app.widgets.turns import Entry
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen


class TurnChoice:
    """Which turn of a screen is chosen; None outside that mode."""

    def __init__(self, screen: "ChatScreen") -> None:
        self._screen = screen
        self._at = -1
        self._came_from_end = False

    @property
    def turn(self) -> Entry | None:
        turns = self._turns()
        return turns[self._at] if 0 <= self._at < len(turns) else None

    async def do(self, deed: Deed) -> None:
        """Raises UsageError for what cannot be done with this turn."""
        if deed in ("older", "newer"):
            await self._move(-1 if deed == "older" else 1)
            return
        turn, screen = self.turn, self._screen
        if deed == "copy" and await screen.copy_selection():
            return
        if deed == "leave" and screen.get_selected_text():
            screen.clear_selection()
            return
        if deed == "leave" or turn is None or turn.message is None:
            self.leave()
            return
        message = turn.message
        match deed:
            case "unfold":
                turn.toggle()
            case "copy":
                await screen.copy(text_of_turn(turn))
            case "previous" | "next":
                await screen.changes.switch(message, -1 if deed == "previous" else 1)
                await self._show()
            case "edit":
                screen.changes.must_be_idle()
                question = message if message.role == "user" else message.parent
                self.leave()
                if question is not None:
                    screen.changes.edit(question)
            case "regenerate":
                screen.changes.must_be_idle()
                self.leave()
                await screen.changes.regenerate(message)
            case "fork":
                screen.changes.must_be_idle()
                self.leave()
                await screen.changes.fork(message)
            case "leave out":
                await screen.changes.toggle_left_out(message)

    async def copy_block(self, number: int) -> None:
        """The code block of that number in the chosen answer."""
        blocks = code_blocks(text_of_turn(self.turn)) if self.turn is not None else []
        if not 1 <= number <= len(blocks):
            raise UsageError(
                f"This turn has no code block {number}", hint="Numbers stand beside the languages."
            )
        await self._screen.copy(blocks[number - 1].code)

    def leave(self) -> None:
        """Back to the prompt, and to the end of the chat if that was in view before."""
        if self._at >= 0 and self._came_from_end:
            self._screen.call_next(self._screen.transcript.to_end)
        self._mark(None)
        self._at = -1
        chooser = self._screen.query_one(TurnChooser)
        chooser.display = False
        self._screen.prompt.focus()

    def _turns(self) -> list[Entry]:
        return [turn for turn in self._screen.transcript.turns if turn.message is not None]

    async def _move(self, step: int) -> None:
        """From the prompt, the newest turn is the first; below it is the prompt again."""
        count = len(self._turns())
        at = count + step if self._at < 0 else self._at + step
        if not count or at >= count or (self._at < 0 and step > 0):
            self.leave()
            return
        if self._at < 0:
            self._came_from_end = self._screen.transcript.follows
        self._at = max(at, 0)
        await self._show()

    async def _show(self) -> None:
        turn = self.turn
        if turn is None:
            self.leave()
            return
        await self._screen.transcript.reveal(turn)
        self._mark(self.turn)
        chooser = self._screen.query_one(TurnChooser)
        chooser.say(self._hint(turn))
        chooser.display = True
        chooser.focus()

    def _mark(self, chosen: Entry | None) -> None:
        for turn in self._turns():
            turn.set_class(turn is chosen, "-chosen")

    def _hint(self, turn: Entry) -> list[str]:
        parts = [f"↑↓ turn {self._at + 1}/{len(self._turns())}", "Esc back"]
        parts += ["e edit", "r again", "f fork", "c copy"]
        if turn.version.total > 1:
            parts.append("←→ versions")
        if turn.message is not None and code_blocks(text_of_turn(turn)):
            parts.append("1-9 code")
        return [*parts, "x omit", "Enter unfold"]
