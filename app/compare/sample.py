"""One measurement of one contender, the prompts that both get, and what a contender can do."""

from typing import NamedTuple, Protocol


class Sample(NamedTuple):
    """One cold request. A rate is 0 where nothing was measured."""

    prompt_tokens: int
    answer_tokens: int
    prefill_tok_s: float
    decode_tok_s: float
    first_token_s: float


class Prompt(NamedTuple):
    """`measure` names what it measures: `decode`, or a prompt's wanted length in tokens."""

    measure: str
    text: str
    answer_tokens: int


DECODE = "decode"


class Contender(Protocol):
    """Who races. `ready` loads the model if it is not loaded; `rest` gives its memory back."""

    def ready(self) -> None: ...

    def request(self, prompt: Prompt) -> Sample: ...

    def rest(self) -> None: ...


Samples = dict[str, list[Sample]]
"""Of one contender: measure -> one sample a pair."""
