"""What a terminal shows after some output: rows of cells, each a character with its colours.

Knows only what ebbtide writes: text, places, colours and attributes, clearing, the alternate screen. Anything
else is passed over.
"""

import re
from typing import NamedTuple

from rich.cells import cell_len

_CUT = re.compile(r"\x1b(?:\[[0-9;?<=>]*|\][^\x07\x1b]*)?\Z")
_SEQUENCE = re.compile(
    r"\x1b(?:\[([?<>=]*)([0-9;:]*)[ -/]*([@-~])|[\]PX^_].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL
)
_SWITCHES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}


class Look(NamedTuple):
    """Colours as in SGR: None is the terminal's own, "31" one of its 16, "2;R;G;B" or "5;N"."""

    front: str | None = None
    back: str | None = None
    attributes: frozenset[str] = frozenset()


class Shown(NamedTuple):
    """A cell. The right half of a wide character is empty text."""

    text: str = " "
    look: Look = Look()

    @property
    def visible(self) -> "Shown":
        """Without what cannot be seen: the ink of a space that is neither underlined nor reversed."""
        if self.text != " " or self.look.attributes & {"underline", "reverse", "strike"}:
            return self
        return Shown(" ", Look(None, self.look.back))


class TerminalCells:
    """`rows` of `columns` cells; `cells[row][column]`."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.cells: list[list[Shown]] = []
        self._row = self._column = 0
        self._look = Look()
        self._clear()

    def feed(self, output: bytes) -> None:
        """Take all that was written so far, from the beginning; half a sequence at the end is left away."""
        text, at = _CUT.sub("", output.decode("utf-8", "replace")), 0
        for match in _SEQUENCE.finditer(text):
            self._print(text[at : match.start()])
            at = match.end()
            if match[3]:
                self._do(match[1], match[2], match[3])
        self._print(text[at:])

    @property
    def text(self) -> str:
        return "\n".join("".join(cell.text for cell in row).rstrip() for row in self.cells)

    def visible(self) -> list[list[Shown]]:
        return [[cell.visible for cell in row] for row in self.cells]

    def _clear(self) -> None:
        self.cells = [[Shown()] * self.columns for _ in range(self.rows)]

    def _print(self, text: str) -> None:
        for character in text:
            if character == "\r":
                self._column = 0
            elif character == "\n":
                self._row, self._column = min(self._row + 1, self.rows - 1), 0
            elif character >= " " and (width := cell_len(character)):
                self._put(character, width)

    def _put(self, character: str, width: int) -> None:
        if self._column + width <= self.columns:
            self.cells[self._row][self._column] = Shown(character, self._look)
            if width == 2:
                self.cells[self._row][self._column + 1] = Shown("", self._look)
        self._column += width

    def _do(self, private: str, parameters: str, final: str) -> None:
        numbers = [int(part) if part else 0 for part in parameters.replace(":", ";").split(";")]
        if private == "?" and numbers == [1049]:
            self._clear()
        elif private:
            return
        elif final == "m":
            self._color(numbers)
        elif final in "Hf":
            place = [max(number, 1) for number in [*numbers, 1][:2]]
            self._row, self._column = min(place[0], self.rows) - 1, place[1] - 1
        elif final == "J":
            self._clear()
        elif final == "K":
            row = self.cells[self._row]
            row[self._column :] = [Shown(" ", Look(None, self._look.back))] * (self.columns - self._column)

    def _color(self, numbers: list[int]) -> None:
        front, back, attributes = self._look
        rest = list(numbers)
        while rest:
            number = rest.pop(0)
            if number == 0:
                front, back, attributes = Look()
            elif number in (38, 48):
                count = 4 if rest[:1] == [2] else 2
                color, rest = ";".join(map(str, rest[:count])), rest[count:]
                front, back = (color, back) if number == 38 else (front, color)
            elif number in _SWITCHES:
                attributes |= {_SWITCHES[number]}
            elif number in _OFF:
                attributes -= set(_OFF[number])
            elif 30 <= number <= 39 or 90 <= number <= 97:
                front = None if number == 39 else str(number)
            elif 40 <= number <= 49 or 100 <= number <= 107:
                back = None if number == 49 else str(number - 10)
        self._look = Look(front, back, attributes)
