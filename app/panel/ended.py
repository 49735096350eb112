"""What a person set by hand and a load of the same model ends, in words."""

from ebbtide.engine.messages import Residency


def ended_by_load(residency: Residency | None, quality: str) -> str:
    """`residency`: the latest that the old engine sent; empty where nothing was set."""
    if residency is None:
        return ""
    pins = len(residency.pinned) - residency.pinned.count(0)
    bounds = len(residency.bounds) - residency.bounds.count(0)
    counts = ((pins, "pin"), (bounds, "bound"))
    parts = [f"{count} {noun if count == 1 else noun + 's'}" for count, noun in counts if count]
    if not parts:
        return ""
    verb = "ends" if pins + bounds == 1 else "end"
    said = f"{' and '.join(parts)}, set by hand, {verb} with this load."
    is_vain = bounds and quality == "exact"
    return f"{said} With --quality exact every expert has all its bits." if is_vain else said
