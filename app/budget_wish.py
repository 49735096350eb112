"""What a budget comes to with the model that is loaded, before anything is loaded anew."""

from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import headroom_bytes, parse_budget, share_bytes
from ebbtide.engine.messages import Load, Loaded
from ebbtide.engine.sizes import MIB, budget_words, format_bytes, mib_words


def bytes_of(wish: str, loaded: Loaded | None) -> int | None:
    """Bytes of a budget as a person writes it; None where only the engine can say. Raises UsageError."""
    budget = parse_budget(wish)
    if budget.kind == "bytes":
        return int(budget.value)
    if budget.kind == "auto" or loaded is None or not loaded.base_bytes:
        return None
    share = share_bytes(budget.value, loaded.expert_bytes, loaded.page_bytes)
    ample = loaded.ample_bytes if share >= loaded.expert_bytes else 0
    return max(loaded.base_bytes + share + ample, loaded.smallest_budget_bytes)


def words_of(wish: str, nbytes: int | None) -> str:
    """As in "20% (312 MiB)" """
    if nbytes is None:
        return wish
    size = budget_words(nbytes)
    return size if _plain(wish) == _plain(size) else f"{wish} ({size})"


def _plain(size: str) -> str:
    return "".join(size.split()).replace(",", "").casefold()


def refuse_unworkable(wish: str, loaded: Loaded | None) -> None:
    """Raise UsageError or FitError for a budget that is known not to work."""
    nbytes = bytes_of(wish, loaded)
    least = loaded.smallest_budget_bytes if loaded is not None else 0
    if nbytes is not None and nbytes < least:
        raise FitError(
            f"/budget {wish} is too small for this model.",
            hint=f"Write /budget {mib_words(least)} or more. The model stays loaded as it was.",
        )
    most = loaded.most_budget_bytes if loaded is not None else 0
    if nbytes is not None and nbytes > most > 0:
        advised = mib_words((most - headroom_bytes(most)) // MIB * MIB)
        raise FitError(
            f"/budget {wish} is more than the memory that is there, {format_bytes(most)}.",
            hint=f"Write /budget {advised} or less, or auto. The model stays loaded as it was.",
        )


def needs_pack(wish: str, load: Load, loaded: Loaded | None) -> bool:
    """Whether the budget works only with a pack, which is not there and may not be made unasked."""
    nbytes = bytes_of(wish, loaded)
    if load.pack == "yes" or loaded is None or nbytes is None:
        return False
    return nbytes < loaded.pack_below_bytes
