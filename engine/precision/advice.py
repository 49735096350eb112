"""When reading experts holds answers up: what narrower experts would buy, and what they would cost.

Exact mode stays exact; a person decides. It is said once a load, after an answer for which many experts had
to be read, of the best quality with which all of them would fit.
"""

from pathlib import Path

import numpy as np

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.messages import Decision
from ebbtide.engine.model.forward import Forward
from ebbtide.engine.precision.calibration_file import Prices, calibration_path, model_key
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.known_damage import Known
from ebbtide.engine.precision.quality import QUALITIES
from ebbtide.engine.precision.steward import Proposal, Question, Steward
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.weights.pack_source import PackSource

LEAST_MISSES = 0.1
"""Of what an answer asked for: below that, reading takes little of its time."""
LEAST_LOOKUPS = 1000
"""Fewer say little: a few dozen tokens."""


class Advisor:
    """Of one loaded model. `cache_dir` as in `Load`."""

    def __init__(self, runtime: Runtime, cache_dir: str) -> None:
        self._runtime, self._cache_dir = runtime, cache_dir
        self._is_done = not _can_narrow(runtime)

    def after(self, hits: int, misses: int) -> Decision | None:
        """What to say after an answer that found so many experts in memory, and so many not."""
        lookups = hits + misses
        if self._is_done or lookups < LEAST_LOOKUPS or misses < LEAST_MISSES * lookups:
            return None
        self._is_done = True
        prices = self._prices()
        missed = misses / lookups
        if prices is None:
            return decisions.may_narrow_unmeasured(missed)
        known = Known(np.asarray(prices.damage, np.float64), prices.mass, prices.unit)
        name, found, room = self._best(known)
        table = self._runtime.fast.table
        assert table is not None
        bits = Costs.of(table.layouts, table.experts).average_bits(found.widths)
        return decisions.may_narrow(missed, name, min(room / found.pages, 1.0), bits, found.damage)

    def _prices(self) -> Prices | None:
        """What errors cost, as far as a calibration tells."""
        if not self._cache_dir:
            return None
        key = model_key(self._runtime.source)
        try:
            return Prices.load(calibration_path(Path(self._cache_dir), key), key, self._runtime.spec)
        except EbbtideError:
            return None

    def _best(self, known: Known) -> tuple[str, Proposal, int]:
        """The best quality with which all experts fit, else the one with which most do."""
        room = self._runtime.fast.tenancy.experts_share()
        table = self._runtime.fast.table
        assert table is not None and known.mass is not None
        question = Question(known.mass, table.committed.copy(), room)
        best: tuple[str, Proposal, int] | None = None
        for name, quality in QUALITIES.items():
            best = name, Steward(table, known, quality).plan(question), room
            if best[1].pages <= room:
                break
        assert best is not None
        return best


def _can_narrow(runtime: Runtime) -> bool:
    """Whether `--quality` would be taken, and what it costs is that of this file's own planes."""
    has_books = isinstance(runtime.source, PackSource) and runtime.source.index.books is not None
    is_exact = runtime.quality == "exact" and runtime.fast.table is not None and runtime.fast.is_exact
    return is_exact and not has_books and isinstance(runtime.forward, Forward)
