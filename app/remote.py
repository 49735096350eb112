"""Whether the terminal is on another machine."""

import os
from collections.abc import Mapping


def is_remote(environment: Mapping[str, str] = os.environ) -> bool:
    """Over SSH every byte travels, and what belongs to a desktop is not this machine's."""
    return any(environment.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))
