"""`ebbtide --plain`: the chat line by line, for terminals and pipes that want no full screen."""

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_text import describe_end, describe_error
from ebbtide.app.console import ProgressPrinter, note, print_error, print_lines
from ebbtide.app.files.mentions import with_files
from ebbtide.app.phase import Phase
from ebbtide.app.plain_commands import FindModel, PlainCommands
from ebbtide.app.quotes import is_open_quote, without_quotes
from ebbtide.app.safe_text import safe, whole_text
from ebbtide.app.word_wrap import WordWrap
from ebbtide.engine.client import ClientEvent, EngineClient
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.messages import Finished, Loaded, Progress, Token

WAKE_S = 1.0
PROMPT, MORE = "> ", "... "
WELCOME = "{name} answers. /help shows what can be typed, /quit leaves; Ctrl+C stops an answer."
ENDS = ("/quit", "/bye", "/exit")


class PlainChat:
    """Reads questions, writes answers; the session does the rest."""

    def __init__(
        self,
        client: EngineClient,
        session: ChatSession,
        find_model: FindModel,
        read: Callable[[str], str] = input,
    ) -> None:
        self._client = client
        self._session = session
        self._commands = PlainCommands(session, find_model)
        self._read = read
        self._wrap: WordWrap | None = None
        self._is_inside = False
        """An answer has begun on the screen's line."""
        self.failure: EbbtideError | None = None
        """The first thing that failed, and was told."""

    def run(self) -> None:
        """Chat until the input ends or says /quit. Ctrl+C stops an answer; at the prompt it ends the chat.

        Where the model does not load, a person may name another one; nobody is asked at the end of a pipe.
        """
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # a byte that is no UTF-8 does not end the chat
        try:
            self._session.start()
            self._until_idle()
            if self.failure is not None and not sys.stdin.isatty():
                return
            if sys.stdin.isatty() and self._session.loaded is not None:
                note(WELCOME.format(name=self._session.loaded.name))
            while (text := self._next_text()) is not None and text.strip() not in ENDS:
                self._take(text)
        finally:
            self._session.close()

    def _next_text(self) -> str | None:
        """What is asked next: a line, or the lines between triple quotes; None at the end of the input."""
        try:
            text = self._read(PROMPT if sys.stdin.isatty() else "")
        except EOFError:
            return None
        while is_open_quote(text):
            try:
                text += "\n" + self._read(MORE if sys.stdin.isatty() else "")
            except EOFError:
                break
        return without_quotes(text)

    def _take(self, text: str) -> None:
        try:
            if not text.strip():
                return
            if self._commands.run(text):
                self._until_idle()
            else:
                self._ask(whole_text(text))
        except EbbtideError as error:
            self.failure = self.failure or error
            print_error(error)

    def _ask(self, text: str) -> None:
        self._session.ask(with_files(text, Path.cwd()))
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
                self._write(safe(event.text))
            case Finished():
                self._end_line()
                note(describe_end(event)) if describe_end(event) else None
            case Progress():
                progress.update(event.stage, event.done, event.total)
            case Loaded():
                for notice in event.notices:
                    note(notice)
            case _:
                if self._session.phase in (Phase.DIED, Phase.FAILED) or self._session.error is not None:
                    self._show_error()

    def _write(self, text: str) -> None:
        """On a terminal, lines end between words; elsewhere nothing is added to what the model wrote."""
        if sys.stdout.isatty() and self._wrap is None:
            self._wrap = WordWrap(shutil.get_terminal_size().columns)
        self._is_inside = True
        sys.stdout.write(text if self._wrap is None else self._wrap.push(text))
        sys.stdout.flush()

    def _end_line(self) -> None:
        wrap, self._wrap, self._is_inside = self._wrap, None, False
        print("" if wrap is None else wrap.end(), flush=True)

    def _show_error(self) -> None:
        if self._is_inside:
            self._end_line()
        self.failure = self.failure or self._session.error
        what, _, to_do = describe_error(self._session).partition("\n")
        print_lines(what, to_do)
