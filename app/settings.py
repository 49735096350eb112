"""Settings in TOML: every field has a type, a default and a docstring; flags and variables win over them."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from ebbtide.app.sampling_ranges import check_ranges
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Load, Sampling

Theme = Literal["auto", "dark", "light", "ansi", "ansi-dark", "ansi-light"]


class EngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `[engine]` table: what is loaded, and into how much memory."""

    model: str = "starter"
    """MODEL as on the command line."""
    budget: str = "auto"
    """`300MiB`, `8GB`, `40%` or `auto`."""
    ctx: int = 0
    """Context in tokens; 0 = the model's own."""
    threads: int = 0
    """0 = as many as there are cores to use."""
    isa: str = "auto"
    """`auto`, `amx`, `avx512`, `avxvnni`, `avx2` or `portable`."""
    device: str = "auto"
    """`auto`, `cpu` or `cuda:N`."""
    policy: str = Load("").policy
    """Which expert gives way first."""
    learn: bool = True
    """Keep what chats show of the experts: sums of squares and routed mass, no text."""


class SamplingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `[sampling]` table: how the next token is chosen."""

    temperature: float = Sampling().temperature
    """0 = always the likeliest token."""
    top_k: int = Sampling().top_k
    """0 = all tokens."""
    top_p: float = Sampling().top_p
    min_p: float = Sampling().min_p
    repeat_penalty: float = Sampling().repeat_penalty
    seed: int = Sampling().seed


class ChatSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `[chat]` table."""

    system: str = ""
    """A system message in front of every chat."""
    theme: Theme = "auto"
    """`auto` follows the terminal's COLORFGBG, dark when it says nothing; `ansi` uses its own 16 colours."""
    compact: bool = False
    """Less empty space on the screen."""
    reduced_motion: bool = False
    """Nothing moves but the text; also when TEXTUAL_ANIMATIONS is `none`."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    engine: EngineSettings = EngineSettings()
    sampling: SamplingSettings = SamplingSettings()
    chat: ChatSettings = ChatSettings()


def load_settings(path: Path) -> Settings:
    """Read the file; a missing one means all defaults. Raises UsageError naming the field at fault."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="Repair or remove it.") from error
    try:
        settings = msgspec.convert(_parse(text), Settings)
        check_ranges(msgspec.structs.asdict(settings.sampling))
        return settings
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"{path} is not valid: {error}", hint="Repair or remove it.") from error


def _parse(text: str) -> Any:
    import tomlkit  # only when there is a file

    return tomlkit.parse(text).unwrap()


def save_setting(path: Path, table: str, field: str, value: str | int | float | bool) -> None:
    """Change one field of the file, keeping everything else in it, comments included. Raises OSError."""
    import tomlkit

    document = tomlkit.parse(path.read_text("utf-8")) if path.exists() else tomlkit.document()
    if table not in document:
        document[table] = tomlkit.table()
    section: Any = document[table]
    section[field] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(tomlkit.dumps(document), "utf-8")
    fresh.replace(path)
