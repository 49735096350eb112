"""Which files a half-typed `@path` may mean, the likeliest first."""

from collections.abc import Iterable

from ebbtide.app.files.listing import ListedFile


def match_files(typed: str, files: Iterable[ListedFile], most: int = 8) -> list[ListedFile]:
    """Files whose path has the typed letters in order; whole pieces and short paths come first."""
    wanted = typed.casefold()
    scored = [(rank, file) for file in files if (rank := _rank(wanted, file.path.casefold())) is not None]
    return [file for _, file in sorted(scored, key=lambda item: (item[0], len(item[1].path), item[1].path))][
        :most
    ]


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
