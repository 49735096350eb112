"""Opens the keeper of widths of a model that was just loaded."""

from collections.abc import Callable

from ebbtide.engine.messages import Decision, Load
from ebbtide.engine.model.forward import Forward
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.keeper import WidthKeeper
from ebbtide.engine.precision.known_damage import known_damage
from ebbtide.engine.precision.quality import QUALITIES
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.precision.steward import Steward
from ebbtide.engine.runtime import Progress, Runtime
from ebbtide.engine.telemetry import RateLimit

INTERVAL_S = 1.0
"""Widths that follow a growing conversation change many times a second: that is told together."""


def keep_widths(
    runtime: Runtime, command: Load, progress: Progress, emit: Callable[[Decision], None]
) -> WidthKeeper:
    """Choose the first widths, before any expert is read, and keep them from now on.

    Damage that nobody has measured yet is measured first: it reads all experts once. Raises ModelError.
    """
    table = runtime.fast.table
    assert table is not None and isinstance(runtime.forward, Forward), "refused when it was loaded"
    known = known_damage(runtime.source, command.cache_dir, runtime.room.threads, progress)
    runtime.notices = (*runtime.notices, *known.notices)
    routes = Routes(table.layers, table.experts, known.mass)
    runtime.forward.routes = routes
    steward = Steward(table, known, QUALITIES[command.quality])
    costs = Costs.of(table.layouts, table.experts)
    keeper = WidthKeeper(runtime.fast, steward, routes, costs, emit, RateLimit(INTERVAL_S).ready)
    keeper.begin()
    return keeper
