"""Writing in the person's own editor: `$VISUAL` or `$EDITOR`."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ebbtide.engine.errors import UsageError


def editor_command(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The editor and its arguments. Raises UsageError when none is set, or when it is not there."""
    for name in ("VISUAL", "EDITOR"):
        value = environment.get(name, "").strip()
        if not value:
            continue
        try:
            command = shlex.split(value)
        except ValueError as error:
            raise UsageError(f"${name} is not a command: {value}", hint="Check its quotes.") from error
        if command and shutil.which(command[0]):
            return command
        raise UsageError(f"${name} names {value}, which was not found", hint="Set it to an editor.")
    raise UsageError("No editor is set", hint="Set $EDITOR, for example: export EDITOR=vim")


def edit_text(text: str, command: list[str]) -> str:
    """Have `text` edited; returns what was saved, without the newline that editors put at the end.

    Raises UsageError when the editor fails or saves what is not text; the caller still has the old text.
    """
    with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
        path = Path(folder) / "message.md"
        path.write_text(text, "utf-8")
        try:
            done = subprocess.run([*command, str(path)], check=False)
            if done.returncode != 0:
                raise UsageError(
                    f"{command[0]} ended with code {done.returncode}", hint="The text is as it was before."
                )
            return path.read_text("utf-8").removesuffix("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{command[0]}: {error}", hint="The text is as it was before.") from error
