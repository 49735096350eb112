"""What a person does to single experts: done at safe points, refused with a sentence, no answer changes."""

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError, UsageError
from ebbtide.engine.messages import Decision, Evict, Pin
from ebbtide.engine.runtime import Runtime


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
