"""System prompts and presets that a person keeps as files in the configuration folder.

`prompts/NAME.md`, or `NAME.txt`, is a system prompt. `presets/NAME.toml` sets a system prompt and sampling
together:

    system = "Answer in one sentence."     # or: prompt = "NAME" of a file in prompts/
    temperature = 0.7                      # and any other field of [sampling]
"""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ebbtide.app.safe_text import safe_line
from ebbtide.app.sampling_ranges import check_ranges
from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Sampling

EXAMPLE = """\
# brief.toml, applied with: /preset brief
system = "Answer in one sentence."
temperature = 0.7
top_p = 0.9
"""


QUOTED = 60
"""Characters of a system prompt that are shown."""


PROMPT_SUFFIXES = (".md", ".txt")
"""Of two files with one name, the first is read."""


class PresetFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields of a preset; None = as it was."""

    system: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    seed: int | None = None


class Preset(NamedTuple):
    """A preset applied: None = leave the system prompt as it is."""

    system: str | None
    sampling: Sampling


def describe_preset(name: str, preset: Preset, system: str, sampling: Sampling) -> str:
    """All that changes with it. `system`, `sampling`: as they are before."""
    fields = [field for field in Sampling.__struct_fields__ if _differs(field, preset.sampling, sampling)]
    changes = [f"{field} {getattr(preset.sampling, field)}" for field in fields]
    if preset.system is not None and preset.system != system:
        now = _quoted("system prompt", preset.system) if preset.system else "no system prompt"
        changes.append(f"{now} (it was {_quoted('', system)})" if system else now)
    return f"Preset {name}: {', '.join(changes) or 'all is as it was'}."


def _differs(field: str, one: Sampling, other: Sampling) -> bool:
    return bool(getattr(one, field) != getattr(other, field))


def _quoted(what: str, text: str) -> str:
    line = safe_line(text)
    short = line if len(line) <= QUOTED else f"{line[:QUOTED].rstrip()} …"
    return f"{what} “{short}”".strip()


class PresetFolder:
    """The files under one configuration folder; read anew each time, so that an edit counts at once."""

    def __init__(self, config: Path) -> None:
        self.prompts = config / "prompts"
        self.presets = config / "presets"

    def prompt_names(self) -> list[str]:
        return sorted({name for suffix in PROMPT_SUFFIXES for name in _stems(self.prompts, f"*{suffix}")})

    def preset_names(self) -> list[str]:
        return _stems(self.presets, "*.toml")

    def prompt(self, name: str) -> str:
        """A system prompt. Raises UsageError."""
        with_file = (suffix for suffix in PROMPT_SUFFIXES if name in _stems(self.prompts, f"*{suffix}"))
        return _read(self.prompts, name, next(with_file, PROMPT_SUFFIXES[0]), self.prompt_names()).strip()

    def preset(self, name: str, before: Sampling) -> Preset:
        """A preset on top of the sampling `before`. Raises UsageError naming the file and the field."""
        import tomlkit

        path = self.presets / f"{name}.toml"
        try:
            file = msgspec.convert(tomlkit.parse(_read(self.presets, name, ".toml")).unwrap(), PresetFile)
            check_ranges(_sampling_fields(file))
        except (ValueError, msgspec.ValidationError) as error:
            raise UsageError(f"{path} is not valid: {error}", hint="Repair or remove it.") from error
        system = self.prompt(file.prompt) if file.prompt is not None else file.system
        return Preset(system, msgspec.structs.replace(before, **_sampling_fields(file)))


def _sampling_fields(file: PresetFile) -> dict[str, Any]:
    values = {name: getattr(file, name) for name in Sampling.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}


def _stems(folder: Path, pattern: str) -> list[str]:
    try:
        return sorted(path.stem for path in folder.glob(pattern))
    except OSError:
        return []


def _read(folder: Path, name: str, suffix: str, names: list[str] | None = None) -> str:
    path = folder / f"{name}{suffix}"
    if path.parent != folder:  # a name is not a way out of the folder
        raise UsageError(f"{name!r} is not a name", hint=f"Files lie directly in {folder}.")
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        known = ", ".join(_stems(folder, f"*{suffix}") if names is None else names) or "none yet"
        raise UsageError(f"There is no {path}", hint=f"There are: {known}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="Repair or remove it.") from error
