"""`ebbtide --plain`: the chat line by line, for terminals and pipes that want no full screen."""

import io
import re
import sys
from collections.abc import Callable

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_text import HELP, describe_end, describe_error
from ebbtide.app.console import ProgressPrinter, note
from ebbtide.app.phase import Phase
from ebbtide.app.safe_text import safe, whole_text
from ebbtide.engine.client import ClientEvent, EngineClient
from ebbtide.engine.messages import Finished, Loaded, Progress, Token

WAKE_S = 1.0
PROMPT = "> "
ENDS = ("/quit", "/bye", "/exit")
_COMMAND = re.compile(r"/[a-z]+$")


class PlainChat:
    """Reads questions, writes answers; the session does the rest."""

    def __init__(
        self, client: EngineClient, session: ChatSession, read: Callable[[str], str] = input
    ) -> None:
        self._client = client
        self._session = session
        self._read = read

    def run(self) -> None:
        """Chat until the input ends or says /quit. Ctrl+C stops an answer; at the prompt it ends the chat."""
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # a byte that is no UTF-8 does not end the chat
        try:
            self._session.start()
            self._until_idle()
            while (text := self._next_line()) is not None and text.strip() not in ENDS:
                self._take(text)
        finally:
            self._session.close()

    def _next_line(self) -> str | None:
        try:
            return self._read(PROMPT if sys.stdin.isatty() else "")
        except EOFError:
            return None

    def _take(self, text: str) -> None:
        word = text.strip()
        if word == "/help":
            print(HELP, file=sys.stderr)
        elif word == "/new":
            self._session.clear()
        elif word == "/pack":
            self._session.reload_with_pack()
            self._until_idle()
        elif _COMMAND.match(word):
            note(f"There is no command {word} here; /help lists them.")
        elif word:
            self._session.ask(whole_text(text))
            self._until_idle()

    def _until_idle(self) -> None:
        """Handle events until the session waits for the person."""
        with ProgressPrinter() as progress:
            while self._session.busy or self._session.phase in (Phase.STARTING, Phase.LOADING):
                try:
                    event = self._client.next_event(WAKE_S)
                    if event is not None and self._session.handle(event):
                        self._show(event, progress)
                except KeyboardInterrupt:
                    if not self._session.busy:
                        raise
                    self._session.stop()

    def _show(self, event: ClientEvent, progress: ProgressPrinter) -> None:
        match event:
            case Token():
                sys.stdout.write(safe(event.text))
                sys.stdout.flush()
            case Finished():
                print(flush=True)
                note(describe_end(event)) if describe_end(event) else None
            case Progress():
                progress.update(event.stage, event.done, event.total)
            case Loaded():
                for notice in event.notices:
                    note(notice)
            case _:
                if self._session.phase in (Phase.DIED, Phase.FAILED) or self._session.error is not None:
                    self._show_error()

    def _show_error(self) -> None:
        print(flush=True)
        for line in describe_error(self._session).splitlines():
            note(line)
