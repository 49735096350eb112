"""Turns to tokens, so that nothing a person or a model wrote can pose as a special token."""

from collections.abc import Iterable, Sequence
from functools import partial

from ebbtide.engine.messages import Turn
from ebbtide.engine.text.answers import AnswerMemory
from ebbtide.engine.text.chat_template import ChatTemplate
from ebbtide.engine.text.splice import Splice
from ebbtide.engine.text.tokenizer import Part, Tokenizer

_PRIVATE_USE = range(0xF0000, 0xFFFFE)


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    turns: Sequence[Turn],
    *,
    add_generation_prompt: bool = True,
    answers: AnswerMemory | None = None,
) -> list[int]:
    """The tokens of a chat as `template` renders it, ready for the model to go on.

    Control tokens count only where the template wrote them; in a turn's content their texts stay text.
    Method: before rendering, characters of the contents that could begin a control token are swapped one for
    one against stand-ins (private-use characters that occur nowhere else); after rendering, the text is split
    at special tokens and only then the stand-ins are swapped back. No control token can then begin inside
    content, whatever the template trims, slices, joins, quotes or repeats.

    Some templates look into content (an earlier answer is cut at `</think>`), so at first only the complete
    control texts are masked. If that rendering has not the same control tokens, in the same order, as one
    with every possible beginning masked, content got through by another way and the latter is taken.

    An assistant turn whose content is one of the `answers` gets the ids that were sampled for it, where the
    template writes it down unchanged: keys that are cached for them then count. The tokens may differ from
    those without `answers`; the text that they decode to, and the control tokens, do not.

    BOS is put in front if the model wants one and the template has not written it. Raises `ModelError` when
    the template refuses the turns.
    """
    render = partial(template.render, add_generation_prompt=add_generation_prompt)
    mask = _Mask(tokenizer, template, turns)
    masked = mask.texts_hidden()
    text = render(masked)
    if mask.is_needed:
        safe = mask.beginnings_hidden()
        if mask.controls(text) != mask.controls(safe_text := render(safe)):
            masked, text = safe, safe_text
    parts = mask.restored(text)
    if answers is not None:
        splice = Splice(answers, turns, masked, text, render, mask.free)
        if splice.rendered is not None and mask.controls(splice.rendered) == mask.controls(text):
            parts = mask.restored(splice.rendered, splice)
    return tokenizer.encode_parts(parts, add_bos=parts[:1] != [tokenizer.bos_id])


class _Mask:
    """The stand-ins for one chat."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, turns: Sequence[Turn]) -> None:
        self._tokenizer = tokenizer
        self._turns = turns
        used = set(template.source).union(*(turn.content for turn in turns))
        self.free = (chr(code) for code in _PRIVATE_USE if chr(code) not in used)
        """Characters that are not in use."""
        beginnings = sorted(tokenizer.controls.first_characters)
        self._hide = str.maketrans(dict(zip(beginnings, self.free, strict=False)))
        self._show = {ord(stand_in): character for character, stand_in in self._hide.items()}
        self.is_needed = not used.isdisjoint(beginnings)

    def beginnings_hidden(self) -> list[Turn]:
        """The turns with every character masked that could begin a control token."""
        return [Turn(turn.role, turn.content.translate(self._hide)) for turn in self._turns]

    def texts_hidden(self) -> list[Turn]:
        """The turns with only those characters masked that do begin the text of a control token."""
        return [Turn(turn.role, self._hide_texts(turn.content)) for turn in self._turns]

    def _hide_texts(self, content: str) -> str:
        controls, characters = self._tokenizer.controls, list(content)
        for start in controls.starts(content):
            if controls.length_at(content, start):
                characters[start] = characters[start].translate(self._hide)
        return "".join(characters)

    def controls(self, rendered: str) -> list[int]:
        """The control tokens of a rendering, in order."""
        parts = self._tokenizer.specials.split(rendered)
        return [part for part in parts if isinstance(part, int) and self._tokenizer.is_control(part)]

    def restored(self, rendered: str, splice: Splice | None = None) -> list[Part]:
        """The parts of a rendering with the real characters, and the ids of a `splice`, back in it.

        User-defined tokens, free to all, are found anew.
        """
        return [
            whole
            for part in self._tokenizer.specials.split(rendered)
            for piece in self._pieces(part, splice)
            for whole in (self._tokenizer.user_defined.split(piece) if isinstance(piece, str) else [piece])
        ]

    def _pieces(self, part: str | int, splice: Splice | None) -> Iterable[Part]:
        if isinstance(part, int):
            return [part]
        if splice is None:
            return [part.translate(self._show)]
        return splice.spelled(part, self._show, adds_space=self._tokenizer.adds_space)
