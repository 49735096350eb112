"""How many experts each layer may keep: the split of the experts' pages among layers."""

from collections.abc import Sequence


def even_quotas(capacity_pages: int, pages_per_expert: Sequence[int], experts: int) -> list[int]:
    """Experts per layer, as even as `capacity_pages` allows; what is left over goes to the first layers.

    Each layer gets at least one expert (the floor) and at most `experts`. Raises ValueError below the floor.
    """
    whole = sum(pages_per_expert)
    if capacity_pages < whole:
        raise ValueError(f"{capacity_pages} pages are fewer than one expert per layer ({whole})")
    each = min(experts, capacity_pages // whole) if whole else experts
    slots = [each] * len(pages_per_expert)
    left = capacity_pages - each * whole
    for layer, pages in enumerate(pages_per_expert):
        if slots[layer] < experts and pages <= left:
            slots[layer] += 1
            left -= pages
    return slots
