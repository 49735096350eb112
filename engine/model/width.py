"""One width for all experts: what was asked for, against the planes that a model has."""

from ebbtide.engine.errors import UsageError
from ebbtide.engine.weights.source import KINDS, WeightSource


def expert_planes(source: WeightSource) -> tuple[int, ...]:
    """The different numbers of planes that expert blocks have, least first; empty for a dense model."""
    layers = range(source.spec.layers if source.spec.experts else 0)
    return tuple(sorted({source.expert_layout(layer, kind).planes for layer in layers for kind in KINDS}))


def checked_width(wanted: int, planes: tuple[int, ...]) -> int:
    """Planes of each expert that are used; 0 = all, also where no block has more than are `wanted`.

    Raises UsageError where `wanted` planes are more than any block has, or none.
    """
    if wanted == 0:
        return 0
    if not planes:
        raise UsageError(f"--width {wanted} is for experts, and this model has none.", hint="Leave it out.")
    most = planes[-1]
    if not 0 < wanted <= most:
        raise UsageError(
            f"--width {wanted} cannot be had: this model's experts have {_listed(planes)} planes.",
            hint=f"Give --width 1 to {most}, or leave it out for all of them.",
        )
    return wanted if wanted < most else 0


def _listed(planes: tuple[int, ...]) -> str:
    *others, last = map(str, planes)
    return f"{', '.join(others)} or {last}" if others else last


def width_notices(width: int, planes: tuple[int, ...]) -> tuple[str, ...]:
    """What a person should know of answers at this width."""
    if width == 0:
        return ()
    return (f"Experts are computed from their top {width} of {planes[-1]} planes: answers are not exact.",)
