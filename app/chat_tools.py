"""What the chat screen needs of the world around it: folders, models, settings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ebbtide.app.model_places import FoundModel
from ebbtide.app.presets import PresetFolder
from ebbtide.app.settings import ChatSettings
from ebbtide.engine.messages import Load


def _plain_path(name: str, load: Load) -> Load:
    return msgspec.structs.replace(load, path=name)


def _nothing(name: str, value: str | bool) -> None:
    pass


@dataclass
class ChatTools:
    """The defaults suit tests; `ebbtide.app.commands.chat` gives the real ones."""

    folder: Path = field(default_factory=Path.cwd)
    """Where `@path` and exports are relative to."""
    presets: PresetFolder = field(default_factory=lambda: PresetFolder(Path("nowhere")))
    settings: ChatSettings = field(default_factory=ChatSettings)
    find_model: Callable[[str, Load], Load] = _plain_path
    """From a name to what loads it, other wishes kept. Raises EbbtideError."""
    list_models: Callable[[], list[FoundModel]] = list
    remember: Callable[[str, str | bool], None] = _nothing
    """Write a field of the `[chat]` settings."""
    theme: str = ""
    """The name by which the colours in use were chosen; `auto` stays `auto`."""
    chat_id: str = ""
    """The chat to open at the start; empty = offer the last one."""
