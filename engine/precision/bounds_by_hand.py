"""What becomes of a bound that a person asks for: taken, or refused with the reason."""

import numpy as np

from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.plan import MemoryPlan
from ebbtide.engine.messages import Bound
from ebbtide.engine.precision.bounds import Bounds
from ebbtide.engine.precision.hull import F64, U8
from ebbtide.engine.precision.steward import Steward
from ebbtide.engine.sizes import format_bytes, mib_typed


def bounded(old: Bounds, command: Bound, steward: Steward, committed: U8) -> Bounds:
    """`old` with the one that is asked for; `committed` u8[layers, 2, experts] is what an expert is held at.

    Raises UsageError for an expert, or planes, that are not there, and for one that never gets narrower.
    """
    layers, _, experts = old.least.shape
    layer, expert = command.layer, command.expert
    if not (0 <= layer < layers and 0 <= expert < experts):
        raise UsageError(f"There is no expert {expert} in layer {layer}.", hint="Choose another.")
    planes = steward.most[layer, :, expert]
    if not 0 <= command.least <= planes.max():
        raise UsageError(
            f"L{layer:02} expert {expert} has {planes.max()} bits, and cannot keep {command.least}.",
            hint=f"Bound it to 1 to {planes.max()} bits.",
        )
    if (command.held or command.least) and (why := steward.why_whole(layer, expert)):
        raise UsageError(f"L{layer:02} expert {expert} always has all its bits.", hint=f"{why}.")
    if command.held:
        now = committed[layer, :, expert]
        return old.changed(layer, expert, now, now)
    return old.changed(layer, expert, np.minimum(planes, command.least), planes)


def check_room(new: Bounds, old: Bounds, steward: Steward, mass: F64, plan: MemoryPlan) -> None:
    """Bounds do not end that all experts fit beside the least KV: raises FitError with the smallest budget.

    `mass` f64[layers, experts] is what was routed.
    Where they do not fit anyway, some are read when they are needed, and bounds change how many.
    """
    pages = steward.least_pages(new, mass)
    share = plan.total_pages - plan.kv_floor_pages
    if pages <= share or steward.least_pages(old, mass) > share:
        return
    needed, there = (format_bytes(count * plan.page_bytes) for count in (pages, share))
    smallest = plan.budget_bytes + (pages - share) * plan.page_bytes
    raise FitError(
        f"With this bound all experts take {needed} at their lowest widths, and the budget has {there} "
        "for them.",
        hint=f"Free other bounds, or give --budget {mib_typed(smallest)} or more.",
    )
