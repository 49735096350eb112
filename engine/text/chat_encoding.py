"""Turns to tokens, so that nothing a person or a model wrote can pose as a special token."""

from collections.abc import Iterable, Iterator, Sequence

from ebbtide.engine.messages import Turn
from ebbtide.engine.text.chat_template import ChatTemplate
from ebbtide.engine.text.tokenizer import Tokenizer

_PRIVATE_USE = range(0xF0000, 0xFFFFE)


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    turns: Sequence[Turn],
    *,
    add_generation_prompt: bool = True,
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

    BOS is put in front if the model wants one and the template has not written it. Raises `ModelError` when
    the template refuses the turns.
    """
    mask = _Mask(tokenizer, template, turns)
    parts = mask.split(template.render(mask.texts_hidden(), add_generation_prompt=add_generation_prompt))
    if mask.is_needed:
        safe = mask.split(
            template.render(mask.beginnings_hidden(), add_generation_prompt=add_generation_prompt)
        )
        parts = parts if mask.controls(parts) == mask.controls(safe) else safe
    return tokenizer.encode_parts(mask.restored(parts), add_bos=parts[:1] != [tokenizer.bos_id])


class _Mask:
    """The stand-ins for one chat."""

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate, turns: Sequence[Turn]) -> None:
        self._tokenizer = tokenizer
        self._turns = turns
        used = set(template.source).union(*(turn.content for turn in turns))
        free = (chr(code) for code in _PRIVATE_USE if chr(code) not in used)
        beginnings = sorted(tokenizer.controls.first_characters)
        self._hide = str.maketrans(dict(zip(beginnings, free, strict=False)))
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

    def split(self, rendered: str) -> list[str | int]:
        return self._tokenizer.specials.split(rendered)

    def controls(self, parts: Iterable[str | int]) -> list[int]:
        """The control tokens among `parts`."""
        return [part for part in parts if isinstance(part, int) and self._tokenizer.is_control(part)]

    def restored(self, parts: Iterable[str | int]) -> Iterator[str | int]:
        """`parts` with the real characters back; user-defined tokens, free to all, are found in them anew."""
        for part in parts:
            if isinstance(part, int):
                yield part
            else:
                yield from self._tokenizer.user_defined.split(part.translate(self._show))
