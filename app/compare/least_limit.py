"""What is said of a memory limit that is too small: the smallest one that works."""

from ebbtide.app.compare.limits import PROCESS_BYTES
from ebbtide.engine.errors import FitError
from ebbtide.engine.sizes import MIB, format_bytes, mib_there, mib_typed, mib_words, whole_mib


def too_small(limit_bytes: int, smallest_budget_bytes: int) -> FitError | None:
    """Why `limit_bytes` holds no model whose smallest budget is so large; None where it does."""
    model_bytes = whole_mib(smallest_budget_bytes) * MIB
    least_bytes = model_bytes + PROCESS_BYTES
    if limit_bytes >= least_bytes:
        return None
    parts = f"{mib_words(model_bytes)} for the model, {mib_words(PROCESS_BYTES)} for the process beside it"
    least = f"the smallest that works is {mib_words(least_bytes)} ({parts})"
    return FitError(
        f"A memory limit of {mib_there(limit_bytes)} is too small: {least}.",
        hint=f"Give --memory-limit {mib_typed(least_bytes)} or more.",
    )


def killed(limit_bytes: int, *, budget_given: bool) -> FitError:
    """What is said when the kernel has killed the engine for the limit."""
    smaller = ", or a smaller --budget" if budget_given else ""
    return FitError(
        f"The engine was killed: it needed more memory than the limit of {format_bytes(limit_bytes)}.",
        hint=f"Give a larger --memory-limit{smaller}.",
    )
