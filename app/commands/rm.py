"""`ebbtide rm`: remove a model that ebbtide made or fetched."""

import json
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
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def rm(context: AppContext, model: str, as_json: bool) -> None:
    """Remove a model from ebbtide's own folder, and its pack; models of other programs are left alone."""
    path = resolve(model, context.paths)
    doomed = [path] if path.parent in (context.paths.models, context.paths.starter) else []
    doomed += [marker_of(path)] if is_starter(path, context.paths) and marker_of(path).exists() else []
    doomed += packs_of(path, context.paths.cache)
    if not doomed:
        raise UsageError(f"{path} is not kept by ebbtide", hint="Remove it with the program that made it.")
    freed = _remove(doomed)
    if as_json:
        print(json.dumps({"removed": [str(file) for file in doomed], "freed_bytes": freed}))
    else:
        for file in doomed:
            print(safe_line(str(file)))
        note(f"{format_bytes(freed)} freed.")


def packs_of(model: Path, cache: Path) -> list[Path]:
    """The pack that ebbtide made of this very file, finished or begun."""
    from ebbtide.engine.weights.pack_index import pack_path_for  # numpy

    pack = pack_path_for(model, cache)
    return [file for suffix in ("", ".part", ".part.json") if (file := Path(f"{pack}{suffix}")).exists()]


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
