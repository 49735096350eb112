"""Commands about the model, its memory and how it answers."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from ebbtide.app.context_wish import context_now, wanted_context
from ebbtide.app.options import is_size
from ebbtide.app.presets import EXAMPLE, describe_preset
from ebbtide.app.safe_text import safe_line
from ebbtide.app.screens.picker import Choice
from ebbtide.app.slash.registry import Command
from ebbtide.app.stats_text import describe_stats
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Load
from ebbtide.engine.sizes import format_bytes

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen

QUALITY_NAMES = ("exact", "high", "balanced", "fast")
"""What `--quality` takes too, from no loss to the most."""


async def model(screen: "ChatScreen", argument: str) -> None:
    """Load another model; the chat stays. Without a name, choose one."""
    if argument:
        screen.changes.may_reload()
        find = screen.tools.find_model
        await screen.changes.reload(await asyncio.to_thread(find, argument, screen.session.load))
        return
    rows = [
        Choice(str(found.path), safe_line(found.name), f"{format_bytes(found.size_bytes)} · {found.source}")
        for found in screen.tools.list_models()
    ]
    if not rows:
        raise UsageError("No other models were found", hint="Give a path: /model PATH")
    screen.pick("Models", rows, lambda path: model(screen, path))


async def budget(screen: "ChatScreen", argument: str) -> None:
    """Load the model again with another budget; the chat stays."""
    from ebbtide.app.budget_wish import (  # after the first paint
        bytes_of,
        needs_pack,
        refuse_unworkable,
        words_of,
    )

    session = screen.session
    load, loaded = session.load, session.loaded
    if not argument:
        now = words_of(load.budget, loaded.memory.budget_bytes if loaded is not None else None)
        screen.note(f"The budget is {now}. Change it with: /budget 60%", passing=True)
        return
    if not is_size(argument):
        raise UsageError(f"{argument!r} is not a size", hint="Write 300 MiB, 8 GB, 40% or auto.")
    refuse_unworkable(argument, loaded)
    wanted = msgspec.structs.replace(load, budget=argument)
    said = words_of(argument, bytes_of(argument, loaded))
    if loaded is not None and needs_pack(argument, load, loaded):
        offer_pack(screen, wanted, said, loaded.pack_bytes)
        return
    await screen.changes.reload(wanted, f"a budget of {said}")


def offer_pack(screen: "ChatScreen", wanted: Load, said: str, pack_bytes: int) -> None:
    """Ask before the model is let go: what is beyond the budget is read from a pack."""

    async def chosen(value: str) -> None:
        if value == "pack":
            await screen.changes.reload(msgspec.structs.replace(wanted, pack="yes"))

    rows = [
        Choice(
            "pack", "Make a pack, then load with this budget", f"{format_bytes(pack_bytes)} of disk, once"
        ),
        Choice("keep", "Keep the model loaded as it is"),
    ]
    screen.pick(f"A budget of {said} needs a pack to read experts from", rows, chosen)


async def ctx(screen: "ChatScreen", argument: str) -> None:
    """Load the model again with another context; the chat stays."""
    loaded = screen.session.loaded
    if not argument:
        screen.note(context_now(loaded), passing=True)
        return
    wanted = wanted_context(argument, loaded)
    load = msgspec.structs.replace(screen.session.load, ctx=wanted)
    await screen.changes.reload(load, f"a context of {wanted:,} tokens")


async def quality(screen: "ChatScreen", argument: str) -> None:
    """Load the model again with another quality; the chat stays, and so does all else that was chosen."""
    load = screen.session.load
    if not argument:
        screen.note(
            f"The quality is {load.quality}. Change it with: /quality {'|'.join(QUALITY_NAMES)}", passing=True
        )
        return
    wanted = argument.lower()
    if wanted not in QUALITY_NAMES:
        raise UsageError(f"{argument!r} is not a quality", hint=f"Write {_either(QUALITY_NAMES)}.")
    if wanted == load.quality:
        screen.note(f"The quality is {wanted} already.", passing=True)
        return
    await screen.changes.reload(msgspec.structs.replace(load, quality=wanted), f"quality {wanted}")


async def pack(screen: "ChatScreen", argument: str) -> None:
    screen.session.reload_with_pack()


async def system(screen: "ChatScreen", argument: str) -> None:
    """Set the system prompt: a text, the name of a file in `prompts`, or `none`."""
    session, folder = screen.session, screen.tools.presets
    if not argument:
        names = ", ".join(folder.prompt_names()) or "none yet"
        now = f"The system prompt is:\n{session.system}" if session.system else "There is no system prompt."
        screen.note(f"{now}\n\nFiles in {folder.prompts}: {names}")
        return
    if argument == "none":
        screen.session.chat.set_system("")
    else:
        screen.session.chat.set_system(
            folder.prompt(argument) if argument in folder.prompt_names() else argument
        )
    held = "The system prompt holds from the next answer on." if session.system else "No system prompt."
    screen.note(held, passing=True)


async def preset(screen: "ChatScreen", argument: str) -> None:
    """Apply a preset from its file; without a name, choose one."""
    folder = screen.tools.presets
    if not argument:
        names = folder.preset_names()
        if not names:
            screen.note(
                f"There are no presets yet. Put a file into {folder.presets}, for example:\n\n{EXAMPLE}"
            )
            return
        screen.pick("Presets", [Choice(name, name) for name in names], lambda name: preset(screen, name))
        return
    chosen = folder.preset(argument, screen.session.sampling)
    said = describe_preset(argument, chosen, screen.session.system, screen.session.sampling)
    screen.session.sampling = chosen.sampling
    screen.session.keeper.preset = argument
    screen.session.chat.set_system(screen.session.system if chosen.system is None else chosen.system)
    screen.note(said, passing=True)


async def stats(screen: "ChatScreen", argument: str) -> None:
    screen.note(describe_stats(screen.session))


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _quality_names(screen: "ChatScreen") -> list[str]:
    return list(QUALITY_NAMES)


def _prompt_names(screen: "ChatScreen") -> list[str]:
    return [*screen.tools.presets.prompt_names(), "none"]


def _preset_names(screen: "ChatScreen") -> list[str]:
    return screen.tools.presets.preset_names()


COMMANDS = [
    Command("model", "load another model", "model", model, "[MODEL]", key="F4", aliases=("models",)),
    Command("budget", "load again with another memory budget", "model", budget, "SIZE"),
    Command("ctx", "load again with another context", "model", ctx, "TOKENS"),
    Command(
        "quality",
        "load again, exact or with fewer bits where memory is short",
        "model",
        quality,
        "[NAME]",
        choices=_quality_names,
    ),
    Command("pack", "make a pack of this model (paging from disk)", "model", pack),
    Command(
        "system",
        "show or set the system prompt",
        "model",
        system,
        "[TEXT|NAME|none]",
        choices=_prompt_names,
    ),
    Command(
        "preset",
        "apply a preset",
        "model",
        preset,
        "[NAME]",
        choices=_preset_names,
    ),
    Command("stats", "figures of the last answer and of memory", "model", stats),
]
