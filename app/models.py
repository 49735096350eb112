"""From MODEL on the command line to a file: a path, `starter`, a name from `ls`, or USER/REPO:QUANT."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ebbtide.app.model_places import FoundModel, find_foreign_models, flat_models
from ebbtide.app.near import nearest
from ebbtide.app.paths import Paths
from ebbtide.app.starter import STARTER, bytes_when_made, is_starter, starter_file
from ebbtide.engine.errors import ModelError, UsageError
from ebbtide.engine.pack_names import BOOKS_SUFFIX

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(:[\w.-]+)?")


def resolve(name: str, paths: Paths) -> Path:
    """The file that `name` means. The starter's path is returned even while the file is missing.

    Raises ModelError (exit code 3) with a hint when nothing is found, or when a name means several files, and
    UsageError for an empty name, which is most likely an empty variable of a script.
    """
    if not name.strip():
        hint = "Give a path or a name that `ebbtide ls` lists; leave MODEL out for the default."
        raise UsageError("MODEL is empty", hint=hint)
    if name in (STARTER, starter_file(paths).stem, str(starter_file(paths))):
        return starter_file(paths)
    path, is_folder = Path(name), False
    # A name too long, a closed folder, an unknown ~user: whatever is wrong, there is no such file for us.
    with suppress(OSError, RuntimeError):
        path = path.expanduser()
        if path.is_file():
            return path.absolute()
        is_folder = path.is_dir()
    if is_folder:
        raise _folder(name, path)
    models = list(find_models(paths))
    matches = _matches(name, models)
    if not matches:
        hint = _near(name, models) or _hint(name)
        raise ModelError(f"No model {_shortened(name)!r} was found", hint=hint)
    return _only(name, matches).path.absolute()


def find_models(paths: Paths) -> Iterator[FoundModel]:
    """ebbtide's own models first, then those of other programs. A pack with any-precision codes counts as a
    model, for its weights are its own; any other is found by itself where its model is opened.
    """
    for model in flat_models(paths.starter, source="ebbtide"):
        if is_starter(model.path, paths):
            yield model
    yield from flat_models(paths.models, source="ebbtide")
    for model in flat_models(paths.packs, source="ebbtide, any-precision codes"):
        if model.path.name.endswith(BOOKS_SUFFIX):
            yield model
    yield from find_foreign_models()


def with_starter(models: list[FoundModel], paths: Paths) -> list[FoundModel]:
    """The models, and the default starter where it is missing: it is made when it is chosen."""
    path = starter_file(paths)
    if any(model.path == path for model in models):
        return models
    return [*models, FoundModel(STARTER, path, "made when chosen", bytes_when_made())]


def _folder(name: str, path: Path) -> ModelError:
    from ebbtide.app.file_kinds import folder_kind  # only where something is wrong

    try:
        kind = folder_kind(path)
    except OSError as error:
        return ModelError(
            f"{name!r} is a folder that cannot be read: {error.strerror}", hint="Give a .gguf file."
        )
    return ModelError(f"{name!r} is {kind.words}", hint=kind.remedy)


def _matches(name: str, models: list[FoundModel]) -> list[FoundModel]:
    """Exact names win over names in another case, those over the repository without its quantisation."""
    folded = name.casefold()
    return (
        [model for model in models if model.name == name]
        or [model for model in models if model.name.casefold() == folded]
        or [model for model in models if model.name.casefold().partition(":")[0] == folded]
    )


def _only(name: str, matches: list[FoundModel]) -> FoundModel:
    """The first place wins for equal names; different names are for the person to choose from."""
    names = sorted({match.name for match in matches})
    if len(names) > 1:
        raise ModelError(f"{name!r} means several models", hint="Say which: " + ", ".join(names) + ".")
    return matches[0]


def _shortened(name: str, limit: int = 80) -> str:
    return name if len(name) <= limit else name[: limit - 3] + "..."


def _near(name: str, models: list[FoundModel]) -> str:
    """Models that a mistyped name may mean, as a hint; empty where there is none."""
    known = {model.name.casefold(): model.name for model in models} | {STARTER: STARTER}
    near = nearest(name, known)
    return f"Is it {' or '.join(known[one] for one in near)}? `ebbtide ls` lists them." if near else ""


def _hint(name: str) -> str:
    if name.endswith(".gguf") or name.startswith((".", "/", "~")):
        return "Check the path; `ebbtide ls` lists the models that ebbtide can see."
    if _HUB_NAME.fullmatch(name):
        return "Download its GGUF file, then give the path; ebbtide also looks into the Hugging Face cache."
    return "`ebbtide ls` lists the models that ebbtide can see; `starter` always works."
