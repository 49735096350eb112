"""Putting remembered answers back into a rendered chat, token for token."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from ebbtide.engine.errors import ModelError
from ebbtide.engine.messages import Turn
from ebbtide.engine.text.answers import AnswerMemory, Spelling

Render = Callable[[Sequence[Turn]], str]


class Splice:
    """Where the answers of a chat are in its rendering: each behind a stand-in of one character.

    `rendered` is the rendering with every known answer replaced by its stand-in, or None where there is none,
    or where the template does anything with an answer but write it down (trim it, cut its thinking). That is
    found out, not guessed: the template renders the chat with the stand-ins as contents, and putting the
    contents back must give the same text as before.
    """

    def __init__(
        self,
        answers: AnswerMemory,
        originals: Sequence[Turn],
        turns: Sequence[Turn],
        text: str,
        render: Render,
        free: Iterator[str],
    ) -> None:
        """`turns` are the `originals` as they were rendered to `text`, with parts of the contents masked.

        free: characters that occur nowhere in them.
        """
        self._known: dict[str, tuple[Spelling, str]] = {}
        self.rendered: str | None = None
        marked, contents = list(turns), dict[int, str]()
        for stand_in, place in zip(free, _written_down(turns, text), strict=False):
            spelling = answers.spelling(originals[place].content)
            if spelling is not None:
                self._known[stand_in] = spelling, originals[place].content
                contents[ord(stand_in)] = turns[place].content
                marked[place] = Turn("assistant", stand_in)
        if not self._known:
            return
        self._pattern = re.compile(f"([{''.join(self._known)}])")
        try:
            rendered = render(marked)
        except ModelError:  # a template may refuse contents that it does not like
            return
        if rendered.translate(contents) == text:
            self.rendered = rendered

    def spelled(
        self, part: str, show: Mapping[int, int], *, adds_space: bool
    ) -> Iterator[str | tuple[int, ...]]:
        """A stretch of `rendered` between special tokens, with the ids of answers instead of their stand-ins.

        show: the table for `str.translate` that unmasks. adds_space: whether the tokenizer puts a space in
        front of plain text; ids that begin with a space take its place, or that of one which the template
        wrote. An answer that would lose or double a space is plain text.
        """
        text, implied = "", adds_space
        for piece in self._pattern.split(part):
            spelling, content = self._known.get(piece, (None, piece.translate(show)))
            before = _text_before(spelling, text, implied=implied) if spelling else None
            if spelling is None or before is None:
                text += content
                continue
            if before:
                yield before
            yield spelling.ids
            text, implied = spelling.rest, False
        if text:
            yield text


def _written_down(turns: Sequence[Turn], text: str) -> Iterator[int]:
    """Answers whose contents occur in the rendering, in order: only these can be there unchanged."""
    start = 0
    for place, turn in enumerate(turns):
        if turn.role == "assistant" and turn.content and (at := text.find(turn.content, start)) >= 0:
            start = at + len(turn.content)
            yield place


def _text_before(spelling: Spelling, text: str, *, implied: bool) -> str | None:
    """What is left of the plain `text` in front of an answer; None where its ids do not fit.

    implied: `text` gets a space in front when it is encoded, and so would the answer if `text` is empty.
    """
    if not spelling.leading_space:
        return None if implied and not text else text
    if implied and not text:
        return ""
    return text[:-1] if text.endswith(" ") and not (implied and text == " ") else None
