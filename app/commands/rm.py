"""`ebbtide rm`: remove a model that ebbtide made or fetched."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ebbtide.app.console import note
from ebbtide.app.context import AppContext
from ebbtide.app.models import resolve
from ebbtide.app.safe_text import safe_line
from ebbtide.app.starter import is_starter, marker_of
from ebbtide.engine.errors import ModelError, UsageError
from ebbtide.engine.sizes import format_bytes


@click.command("rm", short_help="Remove a model that ebbtide keeps.")
@click.argument("model")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Remove it even while a chat uses it; asks nothing either.")
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def rm(context: AppContext, model: str, yes: bool, force: bool, as_json: bool) -> None:
    """Remove a model from ebbtide's own folder, its packs and its calibration, or what chats left of one;
    models of other programs stay. The path of a pack that ebbtide keeps removes that pack alone.

    On a terminal it says what goes and asks. A model that a running ebbtide uses is not removed.
    """
    path = resolve(model, context.paths)
    own = (context.paths.models, context.paths.starter, context.paths.packs)
    doomed = [path] if path.parent in own else []
    doomed += [marker_of(path)] if is_starter(path, context.paths) and marker_of(path).exists() else []
    doomed += packs_of(path, context.paths.cache) + calibrations_of(path, context.paths.cache)
    if not doomed:
        raise UsageError(f"{path} is not kept by ebbtide", hint="Remove it with the program that made it.")
    if not force:
        _refuse_in_use(context, doomed)
    if not (yes or force) and not _agreed(doomed):
        note("Nothing was removed.")
        return
    freed = _remove(doomed)
    if as_json:
        print(json.dumps({"removed": [str(file) for file in doomed], "freed_bytes": freed}))
    else:
        for file in doomed:
            print(safe_line(str(file)))
        note(f"{format_bytes(freed)} freed.")


def _refuse_in_use(context: AppContext, doomed: Sequence[Path]) -> None:
    """Raise UsageError while an engine has one of the files open."""
    from ebbtide.engine.attach import users_of  # sockets: not needed by other commands

    users = {card.pid for file in doomed for card in users_of(context.paths.engines, file)}
    if users:
        numbers = ", ".join(str(pid) for pid in sorted(users))
        raise UsageError(
            f"{doomed[0].name} is in use by a running ebbtide (engine process {numbers})",
            hint="End that chat first, or add --force to remove it all the same.",
        )


def _agreed(doomed: Sequence[Path]) -> bool:
    """Ask where somebody can answer; a script that calls `rm` means it."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    note("To be removed:")
    for file in doomed:
        note(f"  {format_bytes(_size(file)):>8}  {file}")
    whole = format_bytes(sum(map(_size, doomed)))
    return click.confirm(f"Remove {whole} for good?", default=False, err=True)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def packs_of(model: Path, cache: Path) -> list[Path]:
    """The packs that ebbtide made of this very file, finished or begun."""
    from ebbtide.engine.weights.pack_index import pack_path_for  # numpy

    packs = [pack_path_for(model, cache, books=books) for books in (False, True)]
    endings = ("", ".part", ".part.json")
    return [file for pack in packs for end in endings if (file := Path(f"{pack}{end}")).exists()]


def calibrations_of(model: Path, cache: Path) -> list[Path]:
    """What is kept of this very model's calibration, finished or begun; of a file that is none, nothing."""
    from ebbtide.engine.gguf import open_gguf  # numpy, as all below
    from ebbtide.engine.precision.calibration_file import calibration_files, key_of

    try:
        return calibration_files(cache, key_of(open_gguf(model)))
    except ModelError:
        return []


def _remove(files: list[Path]) -> int:
    freed = 0
    for file in files:
        try:
            size = file.stat().st_size
            file.unlink()
        except FileNotFoundError:
            raise ModelError(f"{file} does not exist", hint="`ebbtide ls` lists what is there.") from None
        except OSError as error:
            raise ModelError(f"{file} cannot be removed: {error}", hint="Check its permissions.") from error
        freed += size
    return freed
