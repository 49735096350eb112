"""Figures in few characters, always with their unit."""

from collections.abc import Sequence

from ebbtide.engine.sizes import adding_up, format_bytes

DASH = "\N{EN DASH}"


def rate(value: float | None) -> str:
    """Tokens per second: "41.2", "1,335", or a dash."""
    if value is None:
        return DASH
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def speed(value: float | None) -> str:
    return DASH if value is None else f"{rate(value)} tok/s"


def percent(value: float | None) -> str:
    return DASH if value is None else f"{value:.0%}"


def size(value: float | None) -> str:
    return DASH if value is None else format_bytes(value)


def together(parts: Sequence[int], whole: int, unit_bytes: int, digits: int) -> list[str]:
    """Figures of `parts` bytes, and behind them their sum but for the last part: with it they add up to that
    of `whole` bytes.
    """
    scale = 10**digits / unit_bytes
    figures = adding_up([nbytes * scale for nbytes in parts], round(whole * scale))
    return [f"{figure / 10**digits:,.{digits}f}" for figure in [*figures, sum(figures[:-1])]]


def size_rate(value: float | None) -> str:
    """Bytes per second."""
    return DASH if value is None else f"{format_bytes(value)}/s"
