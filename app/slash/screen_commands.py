"""Commands about the screen."""

from typing import TYPE_CHECKING

from ebbtide.app.palettes import theme_name
from ebbtide.app.screens.picker import Choice
from ebbtide.app.slash.registry import Command
from ebbtide.app.theme_wishes import THEME_WISHES
from ebbtide.engine.errors import UsageError

if TYPE_CHECKING:
    from ebbtide.app.screens.chat import ChatScreen


async def show_help(screen: "ChatScreen", argument: str) -> None:
    screen.show_help()


async def theme(screen: "ChatScreen", argument: str) -> None:
    """Change the colours, and remember them."""
    if not argument:
        rows = [Choice(wish, wish, "in use" if wish == screen.tools.theme else "") for wish in THEME_WISHES]
        screen.pick("Themes", rows, lambda wish: theme(screen, wish))
        return
    if argument not in THEME_WISHES:
        raise UsageError(f"There is no theme {argument!r}", hint="There are: " + ", ".join(THEME_WISHES))
    screen.app.theme = theme_name(argument)
    screen.tools.theme = argument
    screen.tools.remember("theme", argument)


async def panel(screen: "ChatScreen", argument: str) -> None:
    screen.action_memory_panel()


async def density(screen: "ChatScreen", argument: str) -> None:
    """Less empty space, or as usual; remembered."""
    screen.set_compact(not screen.has_class("-compact"))


COMMANDS = [
    Command("help", "keys and commands", "screen", show_help, key="F1", aliases=("h", "?")),
    Command(
        "theme", "change the colours", "screen", theme, "[NAME]", choices=lambda screen: list(THEME_WISHES)
    ),
    Command("panel", "memory panel: side, full, off", "screen", panel, key="F2"),
    Command("density", "less empty space on the screen, or more", "screen", density),
]
