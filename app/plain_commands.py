"""What `/` does in the plain chat; what else begins so is refused, unless it begins with a path."""

import sys
from collections.abc import Callable

import msgspec

from ebbtide.app.budget_wish import bytes_of, needs_pack, refuse_unworkable, words_of
from ebbtide.app.chat_session import ChatSession
from ebbtide.app.chat_text import HELP
from ebbtide.app.console import note
from ebbtide.app.context_wish import context_now, wanted_context
from ebbtide.app.folded import write_folded
from ebbtide.app.options import is_size
from ebbtide.app.slash.registry import nearest_of, no_such_command, parts_of
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Load

FindModel = Callable[[str, Load], Load]
"""What is loaded for a name. Raises EbbtideError."""


class PlainCommands:
    """The commands by name. Each raises EbbtideError for what cannot be done."""

    def __init__(self, session: ChatSession, find_model: FindModel) -> None:
        self._session, self._find_model = session, find_model
        self._by_name: dict[str, Callable[[str], None]] = {
            "help": lambda argument: write_folded(sys.stderr, HELP),
            "new": lambda argument: session.clear(),
            "pack": lambda argument: session.reload_with_pack(),
            "budget": self._budget,
            "ctx": self._ctx,
            "model": self._model,
        }

    def run(self, text: str) -> bool:
        """Do what `text` calls; False: it is a question. Raises UsageError where there is no such command."""
        parts = parts_of(text, self._by_name)
        if parts is None:
            return False
        name, argument = parts
        command = self._by_name.get(name.casefold())
        if command is None:
            raise self._refusal(name)
        command(argument)
        return True

    def _refusal(self, name: str) -> UsageError:
        """A command of the full screen is told apart from a mistyped one."""
        from ebbtide.app.slash.all_commands import REGISTRY  # Textual; not needed for what is right

        if REGISTRY.has(name):
            return UsageError(
                f"/{name} works in the full screen only.", hint="/help lists what works line by line."
            )
        return no_such_command(name, nearest_of(name, [*self._by_name, "quit"]))

    def _budget(self, wish: str) -> None:
        load, loaded = self._session.load, self._session.loaded
        if not wish:
            now = words_of(load.budget, loaded.memory.budget_bytes if loaded is not None else None)
            note(f"The budget is {now}. Change it with: /budget 60%")
            return
        if not is_size(wish):
            raise UsageError(f"{wish!r} is not a size", hint="Write 300 MiB, 8 GB, 40% or auto.")
        refuse_unworkable(wish, loaded)
        if needs_pack(wish, load, loaded):
            raise UsageError(
                f"A budget of {words_of(wish, bytes_of(wish, loaded))} needs a pack to read experts from.",
                hint="/pack makes one; then write it again.",
            )
        self._session.reload(msgspec.structs.replace(load, budget=wish))

    def _ctx(self, tokens: str) -> None:
        loaded = self._session.loaded
        if not tokens:
            note(context_now(loaded))
            return
        wanted = wanted_context(tokens, loaded)
        self._session.reload(msgspec.structs.replace(self._session.load, ctx=wanted))

    def _model(self, name: str) -> None:
        if not name:
            raise UsageError("A model is missing", hint="Write /model NAME; `ebbtide ls` lists them.")
        self._session.reload(self._find_model(name, self._session.load))
