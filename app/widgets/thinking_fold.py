"""A model's thinking, folded to one line with its time and tokens."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Click
from textual.message import Message
from textual.widgets import Static

from ebbtide.app.answer_content import AnswerContent
from ebbtide.app.safe_text import visible
from ebbtide.app.token_rate import usual_tokens


def thinking_title(content: AnswerContent, unfolded: bool) -> str:
    """ "▸ thought for 6.2 s, 312 tokens"; without measurements the tokens are estimated."""
    mark = "▾" if unfolded else "▸"
    word = "thinking" if content.is_thinking else "thought"
    if not content.thinking_tokens:
        return f"{mark} {word}, ~{usual_tokens(content.thinking.strip()):,} tokens"
    return f"{mark} {word} for {content.thinking_s:.1f} s, {content.thinking_tokens:,} tokens"


class ThinkingFold(Vertical):
    """Shown once there is thinking; a click or Enter on the selected turn unfolds it."""

    class Toggled(Message):
        """The person clicked on it."""

    def __init__(self, content: AnswerContent, *, unfolded: bool = False) -> None:
        super().__init__()
        self.unfolded = unfolded
        self._content = content
        self._drawn: tuple[str, str] = ("", "")

    def compose(self) -> ComposeResult:
        yield Static(markup=False, classes="thinking-title")
        yield Static(markup=False, classes="thinking-text")

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Bring it up to date; draws only what has changed."""
        thinking = self._content.thinking.strip("\n")
        self.display = bool(thinking.strip()) or self._content.is_thinking
        title = thinking_title(self._content, self.unfolded)
        body = thinking if self.unfolded else ""
        if (title, body) != self._drawn:
            self._drawn = title, body
            self.query_one(".thinking-title", Static).update(Content(title))
            text = self.query_one(".thinking-text", Static)
            text.update(Content(visible(body)))
            text.display = bool(body)

    def unfold(self, unfolded: bool) -> None:
        self.unfolded = unfolded
        self.draw()

    def on_click(self, event: Click) -> None:
        event.stop()
        self.post_message(self.Toggled())
