"""From the turns of a chat to the prompt that the model was trained on."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Template

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.gguf.faults import file_name, shown
from ebbtide.engine.messages import Turn
from ebbtide.engine.text.sandbox import ChatSandbox, limited_steps
from ebbtide.engine.text.vocabulary import KEYS, Vocabulary, read_vocabulary

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = (
    "{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
PLAIN_STOPS = ("\n\nUser:", "\n\nSystem:")


class ChatTemplate:
    """A compiled template. `notices` are for the user; `stop_strings` end an answer, as end tokens do."""

    def __init__(
        self,
        source: str,
        *,
        path: Path = Path("chat template"),
        bos_token: str = "",
        eos_token: str = "",
        stop_strings: Sequence[str] = (),
        notices: Sequence[str] = (),
    ) -> None:
        """Compiles and tries the template. Raises `ModelError` when it cannot render the simplest chat."""
        self.source = source
        self._path = path
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self.stop_strings = tuple(stop_strings)
        self._template = self._compile(source)
        self._folds_system = self._refuses_system()
        folding = (
            f"{file_name(path)}: its chat template has no system role; it goes before the first question"
        )
        self.notices = (*notices, *([folding] if self._folds_system else []))

    @classmethod
    def from_gguf(cls, file: GgufFile, vocabulary: Vocabulary | None = None) -> "ChatTemplate":
        """The template of the file or, with a notice, a safe default. Raises `ModelError` when it fails."""
        vocabulary = vocabulary or read_vocabulary(file)
        source, stops, notices = _source(file, vocabulary)
        return cls(
            source,
            path=file.path,
            bos_token=vocabulary.text_of(vocabulary.bos_id),
            eos_token=vocabulary.text_of(vocabulary.eos_id),
            stop_strings=stops,
            notices=notices,
        )

    def render(self, turns: Iterable[Turn], *, add_generation_prompt: bool = True) -> str:
        """The prompt as text. Raises `ModelError` with the template's own words when it refuses the turns."""
        messages = [{"role": turn.role, "content": turn.content} for turn in turns]
        return self._render(_fold_system(messages) if self._folds_system else messages, add_generation_prompt)

    @property
    def opens_thinking(self) -> bool:
        """Whether the prompt ends with an opening `<think>`, so that the answer begins inside it."""
        return self.render([Turn("user", "Hello")]).rstrip().endswith("<think>")

    def _render(self, messages: list[dict[str, str]], add_generation_prompt: bool) -> str:
        variables: dict[str, Any] = {"messages": messages, "tools": None, "documents": None, **self._tokens}
        try:
            with limited_steps():
                return self._template.render(variables, add_generation_prompt=add_generation_prompt)
        except Exception as error:  # a template can raise anything that Python can
            raise self._fault("cannot be used for this chat", error) from error

    def _compile(self, source: str) -> Template:
        try:
            with limited_steps():
                return ChatSandbox().from_string(source)
        except Exception as error:  # jinja2 evaluates constant expressions here, so anything may go wrong
            raise self._fault("is not valid", error) from error

    def _refuses_system(self) -> bool:
        """Whether the template takes a question alone but none behind a system message."""
        question = {"role": "user", "content": "Hello"}
        try:
            self._render([{"role": "system", "content": "Be brief."}, question], True)
        except ModelError:
            self._render([question], True)
            return True
        return False

    def _fault(self, what: str, error: Exception) -> ModelError:
        said = shown(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__, 200)
        hint = "Start a new chat, or use another GGUF of this model whose template works."
        return ModelError(f"{file_name(self._path)}: its chat template {what}: {said}", hint=hint)


def _source(file: GgufFile, vocabulary: Vocabulary) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """(template, stop strings, notices)"""
    source = file.get_str(KEYS.CHAT_TEMPLATE, "")
    if source.strip():
        return source, (), ()
    chatml = {"<|im_start|>", "<|im_end|>"} <= set(vocabulary.texts)
    used = (
        "ChatML, which its vocabulary suggests, is used"
        if chatml
        else "plain 'User:' and 'Assistant:' lines are used"
    )
    notice = f"{file_name(file.path)} has no chat template: {used}; answers may suffer"
    return (CHATML, (), (notice,)) if chatml else (PLAIN, PLAIN_STOPS, (notice,))


def _fold_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """System messages put in front of the question that follows them."""
    folded: list[dict[str, str]] = []
    pending = ""
    for message in messages:
        if message["role"] == "system":
            pending += message["content"] + "\n\n"
        elif message["role"] == "user":
            folded.append({"role": "user", "content": pending + message["content"]})
            pending = ""
        else:
            folded.append(message)
    return [*folded, {"role": "user", "content": pending.rstrip()}] if pending else folded
