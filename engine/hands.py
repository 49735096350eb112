"""What a person does to single experts: done at safe points, refused with a sentence."""

from typing import TYPE_CHECKING

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.messages import Bound, Decision, Evict, Pin
from ebbtide.engine.runtime import Runtime

if TYPE_CHECKING:
    from ebbtide.engine.precision.keeper import WidthKeeper


def by_hand(runtime: Runtime | None, command: Pin | Evict) -> Decision:
    """Do it, and say so; or say why not."""
    try:
        if runtime is None or runtime.pager is None:
            raise UsageError("No experts are loaded.", hint="Load a model that has experts.")
        if isinstance(command, Evict):
            runtime.pager.evict(command.layer, command.expert)
            return decisions.by_hand("evict", "evicted", command.layer, command.expert)
        change = runtime.pager.pin if command.on else runtime.pager.unpin
        change(command.layer, command.expert)
        return decisions.by_hand("pin", "pinned" if command.on else "unpinned", command.layer, command.expert)
    except EbbtideError as error:
        return decisions.refused(str(error), error.hint)


def bound_by_hand(runtime: Runtime | None, widths: "WidthKeeper | None", command: Bound) -> Decision:
    """Bound an expert's width, and say so; or say why not. `widths`: None where they do not change."""
    try:
        if runtime is None or runtime.pager is None:
            raise UsageError("No experts are loaded.", hint="Load a model that has experts.")
        if widths is None:
            raise UsageError(
                "Widths do not change with --quality exact: every expert has all its bits.",
                hint="Load the model with --quality high, balanced or fast (in the chat: /quality).",
            )
        return widths.bound(command)
    except EbbtideError as error:
        return decisions.refused(str(error), error.hint)
