"""The command line: which command runs, and how it ends (exit codes, errors, signals)."""

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from ebbtide import __version__
from ebbtide.app import commands
from ebbtide.app.commands import COMMANDS
from ebbtide.app.console import print_error
from ebbtide.app.context import AppContext
from ebbtide.app.near import nearest
from ebbtide.app.signals import EXIT_INTERRUPTED, EXIT_TERMINATED, Terminated, raise_on_termination
from ebbtide.engine.errors import EbbtideError, FitError, ModelError, UsageError

DEFAULT_COMMAND = "chat"
LATER_COMMANDS = ("plan", "serve", "simulate")


TYPED = "ebbtide.typed"
"""The first word of a call that names no command."""


def meant_commands(word: str) -> list[str]:
    """What a mistyped command may mean, the likeliest first; nothing for flags and for existing files."""
    if not word or word.startswith("-") or os.path.lexists(word):
        return []
    if word.casefold() in ("help", "h", "?"):
        return ["--help"]
    return nearest(word, COMMANDS)


class DefaultToChat(click.Group):
    """`ebbtide MODEL` and `ebbtide --budget 8GB` mean the chat. Only the command that runs is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command = getattr(importlib.import_module(f"{commands.__name__}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first in LATER_COMMANDS:
            raise UsageError(
                f"`ebbtide {first}` is not available yet in this version",
                hint="`ebbtide --help` lists what works.",
            )
        if first not in COMMANDS and first not in ("--help", "-h", "--version"):
            ctx.meta[TYPED] = first
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """A word that is neither a command nor a model may be a mistyped command."""
        try:
            return super().invoke(ctx)
        except ModelError as error:
            meant = meant_commands(ctx.meta.get(TYPED, ""))
            if meant:
                error.hint = (
                    f"Did you mean {' or '.join(f'`ebbtide {name}`' for name in meant)}? {error.hint}"
                )
            raise


@click.group(
    cls=DefaultToChat,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A local coding assistant. `ebbtide [MODEL]` opens the chat; `ebbtide chat --help` has its flags.",
    epilog="Every command takes --debug to show a traceback.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    pass


def main(arguments: Sequence[str] | None = None, context: AppContext | None = None) -> int:
    """Run the program and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    context = context or AppContext()
    context.debug = "--debug" in given
    raise_on_termination()
    try:
        # Not cli.main: it would turn a closed pipe into exit code 1.
        with cli.make_context("ebbtide", [part for part in given if part != "--debug"], obj=context) as call:
            cli.invoke(call)
        sys.stdout.flush()
    except BaseException as error:
        return _exit_code(error, context.debug, _command_of(given))
    return 0


def _command_of(given: Sequence[str]) -> str:
    """The command that these arguments call."""
    return given[0] if given and given[0] in COMMANDS else DEFAULT_COMMAND


def _exit_code(error: BaseException, debug: bool, command: str) -> int:
    """Say what happened, once, and choose the code of CONTRACTS.md. `command`: what was called."""
    match error:
        case BrokenPipeError():
            _silence_stdout()
            return 0  # the reader has seen enough
        case OSError(errno=errno.ENOSPC | errno.EDQUOT | errno.EFBIG, filename=None):  # an open file's: ours
            _silence_stdout()
            what = f"The output could not be written: {error.strerror}"
            return _report(FitError(what, hint="Make room, or write it to another place."), error, debug)
        case KeyboardInterrupt() | click.Abort():
            return EXIT_INTERRUPTED
        case Terminated():
            return EXIT_TERMINATED
        case click.ClickException():
            return _report(UsageError(_usage_words(error), hint=_help_hint(error, command)), error, debug)
        case EbbtideError():
            return _report(error, error, debug)
        case click.exceptions.Exit():
            return error.exit_code
        case SystemExit():
            return error.code if isinstance(error.code, int) else 0
        case _:
            what = f"Internal error: {type(error).__name__}: {error}"
            return _report(EbbtideError(what, hint="Run it again with --debug to see more."), error, debug)


def _usage_words(error: click.ClickException) -> str:
    """What click says; of an unknown flag, only those that are near and that the help lists may be meant."""
    if not isinstance(error, click.NoSuchOption):
        return error.format_message()
    parameters = error.ctx.command.params if error.ctx is not None else []
    listed = [part for part in parameters if isinstance(part, click.Option) and not part.hidden]
    meant = nearest(error.option_name, [name for part in listed for name in part.opts])
    suggestion = f" Did you mean {' or '.join(meant)}?" if meant else ""
    return f"There is no flag {error.option_name}.{suggestion}"


def _help_hint(error: click.ClickException, command: str) -> str:
    """The help of the command that was meant, where it is known; not every error of click knows it."""
    call = error.ctx if isinstance(error, click.UsageError) else None
    path = call.command_path if call else f"ebbtide {command}"
    return f"`{path} --help` shows how."


def _report(shown: EbbtideError, cause: BaseException, debug: bool) -> int:
    print_error(shown, _traceback(cause) if debug else "")
    return shown.exit_code


def _traceback(error: BaseException) -> str:
    import traceback  # the start does not wait for it

    return "".join(traceback.format_exception(error))


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about what it cannot write when it exits."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
