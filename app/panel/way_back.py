"""Which key takes back what a person did last to the chosen expert."""

from collections.abc import Iterable

from ebbtide.app.panel.grid import Place
from ebbtide.engine.messages import Decision


def way_back(decision: Decision) -> str:
    """In words, with the key; empty where none does."""
    numbers = decision.numbers
    match decision.kind:
        case "pin":
            return "[p] undoes it"
        case "evict":
            return "[p] reads it again and pins it"
        case "bound" if numbers.get("least"):
            return "[w] undoes it" if numbers.get("held") else "[b] undoes it"
        case _:
            return ""


def latest_by_hand(decisions: Iterable[Decision], place: Place | None) -> Decision | None:
    """What was done last by hand, if to the expert at `place`: on any other one, the key would do it anew.

    `decisions`: newest first.
    """
    for decision in decisions:
        if decision.kind in ("pin", "evict", "bound") and "expert" in decision.numbers:
            is_chosen = (decision.numbers["layer"], decision.numbers["expert"]) == place
            return decision if is_chosen else None
    return None
