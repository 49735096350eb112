"""What `/ctx` asks for, and whether the model can have it."""

from ebbtide.engine.errors import UsageError
from ebbtide.engine.messages import Loaded


def context_now(loaded: Loaded | None) -> str:
    """What a `/ctx` alone is told."""
    if loaded is None:
        return "No model is loaded. Change the context with: /ctx 8192"
    most = f", of {loaded.model_ctx:,} that the model can have" if loaded.model_ctx else ""
    return f"The context is {loaded.ctx:,} tokens{most}. Change it with: /ctx 8192"


def wanted_context(wish: str, loaded: Loaded | None) -> int:
    """Tokens; a thousands comma is fine. Raises UsageError."""
    digits, longest = wish.replace(",", ""), loaded.model_ctx if loaded is not None else 0
    if not digits.isascii() or not digits.isdecimal():
        raise UsageError(f"{wish!r} is not a number of tokens", hint="Write a number, such as /ctx 8192.")
    if 0 < longest < int(digits):
        raise UsageError(
            f"This model's context is {longest:,} tokens at most.", hint=f"Write /ctx {longest} or less."
        )
    return int(digits)
