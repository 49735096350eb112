"""The words of the panel's rules: which model, how alive, what the map's marks mean."""

from ebbtide.app.panel.feed import PanelFeed
from ebbtide.app.panel.grid import Grid
from ebbtide.app.safe_text import safe_line

MEANING = {
    "bars": "a bar each, taller = more bits, · = not in memory",
    "halves": "a box each, 2 layers a line",
    "dots": "a dot each, 4 layers a line",
}


def model_words(feed: PanelFeed) -> str:
    """ "memory · starter · 30 layers of 8 experts · avx2"."""
    loaded = feed.loaded
    if loaded is None:
        return "memory"
    words = f"memory · {safe_line(loaded.name)}"
    if loaded.experts:
        words += f" · {loaded.layers} layers of {loaded.experts} experts"
    return f"{words} · {loaded.isa}"


def pulse(feed: PanelFeed, period_s: float) -> str:
    """Whether figures are fresh, by sign and word."""
    if feed.loading:
        return "○ a model is loading"
    if not feed.alive:
        return "✗ no engine"
    return f"● live {1 / period_s:.0f} Hz"


def map_words(grid: Grid | None, shown: str = "") -> str:
    """What is what in the map; `shown`: which part of it, where that is not all."""
    if grid is None:
        return "experts"
    if shown:
        return f"experts, enlarged: {shown}"
    return f"experts in memory: {MEANING[grid.style] if grid.merge == 1 else f'a dot for {grid.merge}'}"


def map_remark(feed: PanelFeed, grid: Grid | None) -> str:
    """How many experts are resident."""
    residency = feed.residency
    if residency is None or grid is None:
        return ""
    resident = len(residency.widths) - residency.widths.count(0)
    return f"{resident:,} of {len(residency.widths):,} in memory"
