"""Text that streams to a terminal, with lines that end between words; lines of code blocks are left whole."""

from rich.cells import cell_len

FENCES = ("```", "~~~")


class WordWrap:
    """`push` returns what may be written by now: a word is held back until it is known where it ends."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._column = 0
        self._spaces = ""
        self._word = ""
        self._in_code = False

    def push(self, text: str) -> str:
        return "".join(map(self._take, text))

    def end(self) -> str:
        """The rest; the next text begins a new line."""
        rest = self._place_word()
        self._column, self._spaces, self._in_code = 0, "", False
        return rest

    def _take(self, character: str) -> str:
        if character == "\n":
            line = self._place_word() + "\n"
            self._column, self._spaces = 0, ""
            return line
        if not character.isspace():
            self._word += character
            return ""
        placed = self._place_word()
        self._spaces += character
        return placed

    def _place_word(self) -> str:
        """The word behind its spaces, or without them on the next line."""
        if not self._word:
            return ""
        if self._column == 0 and self._word.startswith(FENCES):
            self._in_code = not self._in_code
        needed = self._column + cell_len(self._spaces) + cell_len(self._word)
        breaks = not self._in_code and self._column > 0 and needed > self._columns
        placed = "\n" + self._word if breaks else self._spaces + self._word
        self._column = cell_len(self._word) if breaks else needed
        self._spaces = self._word = ""
        return placed
