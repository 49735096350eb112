"""What to do about a damaged file: a pack is made again, anything else is fetched again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ebbtide.engine.errors import ModelError
from ebbtide.engine.pack_names import PACK_SUFFIX

PACK_KEY = "ebbtide.pack.version"
"""A key that is in packs only."""
FETCH_AGAIN = "Download the file again and compare its size or checksum with the source."
PACK_AGAIN = "Remove the pack and make it again from its model file with `ebbtide pack MODEL`."


def remedy(path: Path) -> str:
    """The hint for a damaged file of which nothing but the name is known."""
    return PACK_AGAIN if path.name.endswith(PACK_SUFFIX) else FETCH_AGAIN


@contextmanager
def remedy_by(keys: Mapping[str, object]) -> Iterator[None]:
    """Faults inside have the hint that suits a file with these keys, whatever its name."""
    try:
        yield
    except ModelError as error:
        if error.hint == FETCH_AGAIN and PACK_KEY in keys:
            error.hint = PACK_AGAIN
        raise
