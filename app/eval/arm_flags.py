"""Which flags of `ebbtide eval` go together with an arm, and what --budget means there."""

import os
from dataclasses import replace

import click
from click.core import ParameterSource

from ebbtide.app.options import EngineFlags
from ebbtide.engine.errors import UsageError

PAGED = "paged"
"""The model as it runs; with --bits or, where it is given as --arm, with --budget, an arm."""
SIZED = ("uniform", "static", "dp", PAGED)
"""Arms that take the bytes of a number of planes."""


def sizes_of(flags: EngineFlags, arm: str, bits: float | None) -> tuple[EngineFlags, str]:
    """The flags to load the model with, and the budget of the arm ("" = none).

    A --budget on the command line is the arm's where an arm that has a size is asked for: the model itself
    needs all planes to compare with, and loads as without the flag. EBBTIDE_BUDGET is the model's always.
    """
    asked = bits is not None or _is_typed("arm")
    if not (_is_typed("budget") and arm in SIZED and asked):
        return flags, ""
    return replace(flags, budget=os.environ.get("EBBTIDE_BUDGET") or None), flags.budget or ""


def _is_typed(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def check_flags(arm: str, bits: float | None, budget: str, without: str | None) -> None:
    """Raise UsageError for flags that do not go together; `budget` is the arm's."""
    if arm == "fp16" and bits is not None:
        raise UsageError("--bits says nothing about --arm fp16, which has 16.", hint="Leave --bits out.")
    if bits is not None and budget:
        raise UsageError(
            "--bits and --budget both say how large an arm's experts are.",
            hint="Give one of them; the memory for the comparison itself is EBBTIDE_BUDGET's.",
        )
    if budget.strip().lower() == "auto":
        raise UsageError(
            "--budget auto is no size that arms could be compared at.",
            hint="Give --budget 40%, for example, or --bits 5.",
        )
    if without is not None and (arm != PAGED or (bits is None and not budget)):
        raise UsageError(
            f"--without leaves out a signal of --arm {PAGED} at a number of --bits or a --budget.",
            hint=f"Give --arm {PAGED} --bits 5, for example, or leave --without out.",
        )
    if arm in SIZED and arm != PAGED and bits is None and not budget:
        raise UsageError(
            f"--arm {arm} needs --bits, the planes per expert weight, or --budget.",
            hint="Give --bits 5, for example.",
        )
