"""Which arm answers an `Arm`, and what a budget in place of a number of planes means to it."""

from collections.abc import Callable

import msgspec

from ebbtide.engine import messages as m
from ebbtide.engine.at_widths import table_of
from ebbtide.engine.errors import FitError, UsageError
from ebbtide.engine.memory.budget import parse_budget
from ebbtide.engine.memory.plan import MemoryPlan
from ebbtide.engine.precision.choosing import choose
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.dp_choosing import choose_dp
from ebbtide.engine.runtime import Progress, Runtime
from ebbtide.engine.sizes import mib_typed, mib_words
from ebbtide.engine.weights.pack_source import PackSource

OWN_FULL_WIDTH = (
    "Full width is that of this pack's any-precision codes: nothing is compared with the file that they were "
    "made from."
)


def choose_arm(
    runtime: Runtime, command: m.Arm, progress: Progress, cancelled: Callable[[], bool]
) -> m.ArmWidths:
    """Answer an `Arm`, and bring all planes into memory. Raises UsageError for what cannot be had, FitError
    (with the budget that is enough) where not all planes fit, Cancelled.
    """
    left = 0
    if command.budget:
        table = table_of(runtime)
        costs = Costs.of(table.layouts, table.experts)
        left = bytes_in(command.budget, runtime.plan, costs)
        command = msgspec.structs.replace(command, bits=bits_in(left, costs))
    is_dp = command.arm == "dp"
    found = (choose_dp if is_dp else choose)(runtime, command, progress, cancelled)
    if isinstance(runtime.source, PackSource) and runtime.source.index.books is not None:
        found.notices.append(OWN_FULL_WIDTH)
    if is_dp and left and found.expert_bytes > left:
        found.notices.append(
            f"--arm dp reads no more for a token than {mib_words(left)} are of all experts, but the planes "
            f"that it holds take {mib_words(found.expert_bytes)}: it would not run in this budget."
        )
    return found


def bytes_in(budget: str, plan: MemoryPlan, costs: Costs) -> int:
    """What a budget leaves for experts' scales and planes beside dense weights, workspace and the KV of a
    short question; like all sizes of arms, without the padding of pages.

    Raises UsageError for what is no size, FitError for a budget that has no room for one plane of each block.
    """
    wish = parse_budget(budget)
    if wish.kind == "auto":
        raise UsageError(
            "--budget auto is no size that arms could be compared at.",
            hint="Give --budget 40%, for example, or --bits 5.",
        )
    full = costs.expert_bytes(costs.full())
    if wish.kind == "percent":
        left = int(full * wish.value / 100)
    else:
        left = min(int(wish.value) - plan.base_bytes, full)
    least = costs.target_bytes(1)
    if left < least:
        enough = plan.base_bytes + least
        raise FitError(
            f"A budget of {budget} has no room for one plane of every expert: with the rest of the model "
            f"that takes {mib_words(enough)}.",
            hint=f"Give --budget {mib_typed(enough)} or more.",
        )
    return left


def bits_in(left: int, costs: Costs) -> float:
    """The average of planes whose bytes are at most `left`: `Costs.target_bytes` backwards."""
    planes = left / costs.experts - float(costs.scale_bytes.sum())
    return min(max(8 * planes / float(costs.weight_bits.sum()), 1.0), costs.most_bits)
