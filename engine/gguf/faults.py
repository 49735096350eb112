"""The ways in which a GGUF file can be wrong, as errors that a person can act on."""

from pathlib import Path

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf.remedy import remedy


def shown(text: str, limit: int = 80) -> str:
    """`text` in quotes, cut to `limit` characters and with nothing in it that could act on a terminal."""
    cut = text if len(text) <= limit else text[: limit - 3] + "..."
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut) + "'"


def file_name(path: Path) -> str:
    """The last part of `path`, safe to print."""
    return shown(path.name or str(path))


def damaged(path: Path, what: str) -> ModelError:
    """The bytes contradict themselves or the format."""
    return ModelError(f"{file_name(path)} is damaged: {what}", hint=remedy(path))


def truncated(path: Path, what: str, wanted: int, size: int) -> ModelError:
    """`what` needs `wanted` bytes of a file that has `size`."""
    what = f"{what} reaches to byte {wanted}, but the file has only {size} bytes"
    return ModelError(f"{file_name(path)} is cut short: {what}", hint=remedy(path))


def unsupported(path: Path, what: str, hint: str) -> ModelError:
    """A well-formed file of a kind that ebbtide does not take."""
    return ModelError(f"{file_name(path)} is not supported: {what}", hint=hint)


def missing_key(path: Path, key: str) -> ModelError:
    """A key without which the model cannot be used."""
    return ModelError(
        f"{file_name(path)} has no key {shown(key)}",
        hint="Use a complete GGUF of this model; this one was converted without that key.",
    )


def wrong_value(path: Path, key: str, found: str, expected: str) -> ModelError:
    """A key that holds something else than the format says."""
    return ModelError(
        f"{file_name(path)}: key {shown(key)} holds {found}, not {expected}",
        hint="The file was written by a faulty converter: get another GGUF of this model.",
    )
