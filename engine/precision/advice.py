"""When reading experts holds answers up: what narrower experts would buy, and what they would cost.

Exact mode stays exact; a person decides. It is said once a load, after an answer for which many experts had
to be read, of each quality up to the best one with which all of them would fit.
"""

from pathlib import Path

import numpy as np

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.tables import WeightPageTable
from ebbtide.engine.messages import Decision
from ebbtide.engine.model.forward import Forward
from ebbtide.engine.precision.calibration_file import Prices, calibration_path, model_key
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.known_damage import Known
from ebbtide.engine.precision.quality import QUALITIES
from ebbtide.engine.precision.steward import Question, Steward
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.weights.pack_source import PackSource


def advice(runtime: Runtime, cache_dir: str, missed: float) -> Decision | None:
    """After an answer of whose experts the share `missed` had to be read. None where widths cannot change."""
    if not _can_narrow(runtime):
        return None
    prices = _prices(runtime, cache_dir)
    if prices is None:
        return decisions.may_narrow_unmeasured(missed)
    table, room = runtime.fast.table, runtime.fast.tenancy.experts_share()
    assert table is not None
    return decisions.may_narrow(missed, _offers(table, prices, room))


def _prices(runtime: Runtime, cache_dir: str) -> Prices | None:
    """What errors cost, as far as a calibration tells."""
    if not cache_dir:
        return None
    key = model_key(runtime.source)
    try:
        return Prices.load(calibration_path(Path(cache_dir), key), key, runtime.spec)
    except EbbtideError:
        return None


def _offers(table: WeightPageTable, prices: Prices, room: int) -> list[decisions.Offer]:
    """What each quality makes of so many pages, up to the best one with which all experts fit."""
    known = Known(np.asarray(prices.damage, np.float64), prices.mass, prices.unit)
    question = Question(prices.mass, table.committed.copy(), room)
    costs, offers = Costs.of(table.layouts, table.experts), []
    for name, quality in QUALITIES.items():
        found = Steward(table, known, quality).plan(question)
        held = min(room / found.pages, 1.0)
        offers.append(decisions.Offer(name, held, costs.average_bits(found.widths), found.damage))
        if held >= 1:
            break
    return offers


def _can_narrow(runtime: Runtime) -> bool:
    """Whether `--quality` would be taken, and what it costs is that of this file's own planes."""
    has_books = isinstance(runtime.source, PackSource) and runtime.source.index.books is not None
    is_exact = runtime.quality == "exact" and runtime.fast.table is not None and runtime.fast.is_exact
    return is_exact and not has_books and isinstance(runtime.forward, Forward)
