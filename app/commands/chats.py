"""`ebbtide chats`: the chats that are kept, listed, shown, written to files and removed."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ebbtide.app.console import note, tell
from ebbtide.app.context import AppContext
from ebbtide.app.safe_text import safe_line, whole_text
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.store import Chat, ChatStore


@click.group("chats", short_help="List, show, export and remove chats.", invoke_without_command=True)
@click.pass_context
def chats(call: click.Context) -> None:
    """List, show, export and remove chats; alone, it lists them. IDs are those of `ebbtide chats ls`."""
    if call.invoked_subcommand is None:
        call.invoke(ls)


@contextmanager
def opened(context: AppContext, *, to_change: bool = False) -> Iterator["ChatStore"]:
    """The store: where there is no file yet, none is made. One that nothing can be written to is read, unless
    it is `to_change`. Raises StoreError.
    """
    from ebbtide.app.store import memory_store  # SQLite

    path = context.paths.chats
    with _opened(path, to_change=to_change) if path.exists() else memory_store() as store:
        if store.notice:
            note(store.notice)
        yield store


def _opened(path: Path, *, to_change: bool) -> "ChatStore":
    from ebbtide.app.store import StoreUnsaved, open_store, read_store

    try:
        return open_store(path)
    except StoreUnsaved as error:
        if not to_change:
            return read_store(path, error)
        hint = "Check the permissions of that folder, or set EBBTIDE_HOME. Nothing was changed."
        raise StoreUnsaved(str(error), hint=hint) from error


@chats.command("ls", short_help="List chats, the latest first.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def ls(context: AppContext, as_json: bool) -> None:
    """List chats, the latest first: id, last change, title."""
    with opened(context) as store:
        kept = store.list_chats(limit=store.stats().chats)
    if as_json:
        print(json.dumps([as_object(chat) for chat in kept]))
        return
    if not kept:
        note("No chats yet. `ebbtide` begins one.")
    for chat in kept:
        tell(f"{chat.id}  {_when(chat.updated_ms)}  {safe_line(chat.title) or '(no title)'}")


@chats.command("show", short_help="Print a chat.")
@click.argument("chat_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def show(context: AppContext, chat_id: str, as_json: bool) -> None:
    """Print a chat as Markdown; with --json all its branches, as `export` writes them."""
    with opened(context) as store:
        text = _as_text(store, whole_text(chat_id), "json" if as_json else "md")
    print(text, end="")


@chats.command("export", short_help="Write a chat to a file.")
@click.argument("chat_id", metavar="ID")
@click.option("--format", "kind", type=click.Choice(["md", "json"]), default="md", show_default=True)
@click.option("--out", type=click.Path(path_type=Path), help="File or folder; left out, standard output.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_obj
def export(context: AppContext, chat_id: str, kind: str, out: Path | None, force: bool) -> None:
    """Write a chat as Markdown (the branch that is shown) or as JSON (everything, and readable again)."""
    from ebbtide.app.store import file_name

    with opened(context) as store:
        chat = store.get_chat(whole_text(chat_id))
        text = _as_text(store, chat.id, kind)
    if out is None:
        print(text, end="")
        return
    target = out / file_name(chat, kind) if out.is_dir() else out
    try:
        with target.open("w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(
            f"{target} is there already", hint="Choose another --out, or add --force to write over it."
        ) from error
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{target} cannot be written: {reason}", hint="Choose another --out.") from error
    note(f"Written to {target}")


@chats.command("rm", short_help="Remove chats for good.")
@click.argument("chat_ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def rm(context: AppContext, chat_ids: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove chats with all their branches. Their text is overwritten: there is no way back."""
    with opened(context, to_change=True) as store:
        doomed = [store.get_chat(whole_text(chat_id)) for chat_id in dict.fromkeys(chat_ids)]
        if not yes and not _agreed(doomed):
            note("Nothing was removed.")
            return
        for chat in doomed:
            store.delete_chat(chat.id)
        if store.trouble is not None:  # removed in memory only
            raise store.trouble
    if as_json:
        print(json.dumps({"removed": [chat.id for chat in doomed]}))
    else:
        note(f"Removed {len(doomed)} {'chat' if len(doomed) == 1 else 'chats'}.")


def as_object(chat: "Chat") -> dict[str, object]:
    return {
        "id": chat.id,
        "title": chat.title,
        "model": chat.model,
        "messages": chat.message_count,
        "created_ms": chat.created_ms,
        "updated_ms": chat.updated_ms,
    }


def _as_text(store: "ChatStore", chat_id: str, kind: str) -> str:
    """The text of an exported file. Raises UnknownChat."""
    from ebbtide.app.store import export_json, export_markdown

    return export_json(store, chat_id) if kind == "json" else export_markdown(store, chat_id)


def _agreed(doomed: "list[Chat]") -> bool:
    if not sys.stdin.isatty():
        raise UsageError("There is no terminal to ask on", hint="Add --yes to remove without asking.")
    for chat in doomed:
        note(f"{chat.id}: {chat.title or '(no title)'}, {chat.message_count} messages")
    return click.confirm("Remove for good?", err=True)


def _when(at_ms: int) -> str:
    """Local time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_ms / 1000))
