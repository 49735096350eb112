"""Which files a half-typed `@path` may mean, the likeliest first."""

from collections.abc import Callable, Iterable
from itertools import islice

from ebbtide.app.files.listing import ListedFile


def match_files(
    typed: str,
    files: Iterable[ListedFile],
    most: int = 8,
    keep: Callable[[ListedFile], bool] = lambda file: True,
) -> list[ListedFile]:
    """Files whose path has the typed letters in order; whole pieces and short paths come first.

    `keep` may look into a file: it is asked only for those that would be in the list.
    """
    wanted = typed.casefold()
    scored = [(rank, file) for file in files if (rank := _rank(wanted, file.path.casefold())) is not None]
    ranked = sorted(scored, key=lambda item: (item[0], len(item[1].path), item[1].path))
    return list(islice((file for _, file in ranked if keep(file)), most))


def _rank(wanted: str, path: str) -> int | None:
    """Smaller is better; None = no match."""
    name = path.rpartition("/")[2]
    if path.startswith(wanted):
        return 0
    if name.startswith(wanted):
        return 1
    if wanted in path:
        return 2
    letters = iter(path)
    return 3 if all(letter in letters for letter in wanted) else None
