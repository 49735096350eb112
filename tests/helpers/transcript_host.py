"""The transcript alone in an application, for pilots."""

from textual.app import App, ComposeResult

from ebbtide.app.chat_app import ChatApp
from ebbtide.app.themes import DARK, install_themes
from ebbtide.app.widgets.transcript import Transcript
from ebbtide.app.widgets.turns import Entry
from tests.helpers.chat_host import drawn


class Host(App[None]):
    CSS_PATH = ChatApp.CSS_PATH

    def __init__(self) -> None:
        super().__init__()
        install_themes(self, DARK.name)

    def compose(self) -> ComposeResult:
        yield Transcript()

    @property
    def transcript(self) -> Transcript:
        return self.query_one(Transcript)

    def lines(self) -> list[str]:
        return [line[:76].rstrip() for line in drawn(self).split("\n")]


def mounted(host: Host) -> list[Entry]:
    return [turn for turn in host.transcript.turns if turn.is_attached]


def shows(host: Host, text: str) -> bool:
    """Whether a line of the screen is `text`."""
    return any(line.strip(" ▌") == text for line in host.lines())
