"""Sizes in words, the same in every message: powers of 1024, as `--budget 459MiB` counts them."""

_UNITS = ("B", "KiB", "MiB", "GiB")


def format_bytes(count: float) -> str:
    """A size a person reads at a glance: "459 MiB", "1.2 GiB"."""
    value = float(count)
    for unit in _UNITS:
        if abs(value) < 999.5:
            whole = unit in ("B", "KiB") or abs(value) >= 99.5
            return f"{value:.0f} {unit}" if whole else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"
