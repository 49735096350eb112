"""What a model's experts are asked while a person chats: moments of their inputs, kept as its calibration.

Gathered from one chunk in eight of the prompts, as long as nobody has calibrated the model. What is kept are
sums of squares of activations and routed mass per expert: no text, and nothing that text follows from. No
answer changes by it: a chunk that is looked at computes every row of the last layer, of which the others
leave out what nobody reads, and a row's bits do not depend on the others.

What it costs (tests/tools/learning_cost.py; the starter, 256 tokens, two threads, 40 pairs): 9.1 % of
a chunk that is looked at (95 %: 8.0 to 11.3; 490 tokens a second without, 445 with), so 1.1 % of reading long
prompts. To keep it takes 0.2 s for 1,024 experts of 2,048 columns and 1.2 s for 6,144, at rest.

Two windows add to the same file: each reads it, adds its own and writes it back while the other waits.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.messages import Decision
from ebbtide.engine.model.forward import Forward, LayerObserver, RouteObserver
from ebbtide.engine.model.layer import U8, KvView, LayerPass
from ebbtide.engine.model.rows import F32, I32
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.precision.array_file import alone
from ebbtide.engine.precision.calibration_file import (
    Calibration,
    ModelKey,
    Origin,
    aside_path,
    calibration_path,
    kept_origin,
    model_key,
    with_samples,
)
from ebbtide.engine.precision.gathering import SampledMoments
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.weights.pack_source import PackSource
from ebbtide.kernels.ops import BlockTable

LEAST_TOKENS = 2048
"""Fewer that are new are not worth a write of the whole file."""
MOST_OF_BUDGET = 0.01
"""What is gathered lies beside the budget, and up to four times as much while it is written: where that would
be more than a few hundredths of it, nothing is gathered."""
CALIBRATED = "the model has been calibrated"
BUSY = "another ebbtide does not let go of its file"


def open_learner(runtime: Runtime, cache_dir: str) -> "tuple[Learner | None, tuple[str, ...]]":
    """Who gathers for this model, and notices; None where nothing is to be gathered: the model has been
    calibrated, has no experts or codes of its own, is on a card, or its budget is too small for it.

    A file in its place that cannot be used is put aside.
    """
    source, forward = runtime.source, runtime.forward
    has_books = isinstance(source, PackSource) and source.index.books is not None
    if not cache_dir or not runtime.spec.experts or has_books or not isinstance(forward, Forward):
        return None, ()
    if _bytes_of(runtime.spec) > MOST_OF_BUDGET * runtime.plan.budget_bytes:
        return None, ()
    try:
        key = model_key(source)
        path = calibration_path(Path(cache_dir), key)
        origin, notice = _origin(path, key)
    except (EbbtideError, OSError):
        return None, ()
    notices = (notice,) if notice else ()
    return (Learner(forward, path, key) if origin in (None, "chats") else None), notices


def _bytes_of(spec: ModelSpec) -> int:
    return spec.layers * spec.experts * spec.d_model * np.dtype(np.float32).itemsize


def _origin(path: Path, key: ModelKey) -> tuple[Origin | None, str]:
    """Of what is kept, and a notice where it had to be put aside. Raises OSError where that fails."""
    try:
        return kept_origin(path, key), ""
    except EbbtideError as error:
        return None, _put_aside(path, error)


def _put_aside(path: Path, error: EbbtideError) -> str:
    aside = aside_path(path)
    path.replace(aside)
    return f"{str(error).rstrip('.')}. It was put aside as {aside.name}. {error.hint}"


class Learner:
    """Stands before a model's passes for chunks of prompts. Used by the step thread."""

    def __init__(self, forward: Forward, path: Path, key: ModelKey) -> None:
        self._forward, self._path, self._key = forward, path, key
        self._samples: SampledMoments | None = SampledMoments(forward.spec)
        """None = nothing is gathered any more."""

    def hidden(
        self, ids: I32, start: int, kv: KvView, cancelled: Callable[[], bool], last: int | None = None
    ) -> F32:
        """See `Pass.hidden`: the same rows."""
        observer = self._samples.next_chunk() if self._samples is not None else None
        if observer is None:
            return self._forward.hidden(ids, start, kv, cancelled, last)
        wanted = ids.size if last is None else last
        if self._forward.routes is not None:
            observer = _BesideRoutes(observer, self._forward.routes, self._forward.spec, wanted)
        rows = self._forward.hidden(ids, start, kv, cancelled, observer=observer)
        return rows[ids.size - wanted :]

    @property
    def is_due(self) -> bool:
        """Whether there is so much that is new that it is worth keeping."""
        return self._samples is not None and self._samples.tokens >= LEAST_TOKENS

    def rest(self) -> Decision:
        """Keep what is new, and say what became of it. Where it cannot be kept, nothing more is gathered."""
        assert self._samples is not None, "asked for where nothing is due"
        samples, self._samples = self._samples, None
        moments = samples.moments()
        del samples  # they take as much as the moments
        try:
            with alone(self._path.parent) as is_alone:
                if not is_alone:
                    return decisions.learning_ended(BUSY)
                kept, notice = self._kept()
                if kept is not None and kept.origin != "chats":
                    return decisions.learning_ended(CALIBRATED)
                both = with_samples(kept, self._key, moments)
                both.save(self._path)
        except EbbtideError as error:
            return decisions.learning_ended(str(error), error.hint)
        except (OSError, MemoryError) as error:
            return decisions.learning_ended(str(error) or "the system has no memory left")
        self._samples = SampledMoments(self._forward.spec)
        return decisions.learnt(moments.tokens, both.moments.tokens, notice)

    def _kept(self) -> tuple[Calibration | None, str]:
        """As `_origin`: the arrays are read too, and may prove damaged."""
        if not self._path.exists():
            return None, ""
        try:
            return Calibration.load(self._path, self._key, self._forward.spec), ""
        except EbbtideError as error:
            return None, _put_aside(self._path, error)

    def close(self) -> None:
        """Keep what is new, if it is worth it: the model is about to go."""
        if self.is_due:
            self.rest()
        self._samples = None


class _BesideRoutes:
    """A `LayerObserver` of every row, and one beside it that sees what it sees in a pass that nobody looks
    at: in the last layer only the rows that are wanted.
    """

    def __init__(self, every_row: LayerObserver, routes: RouteObserver, spec: ModelSpec, wanted: int) -> None:
        self._every_row, self._routes = every_row, routes
        self._last_layer, self._wanted = spec.layers - 1, wanted

    def routed(self, layer: int, at: LayerPass) -> None:
        """See `LayerObserver.routed`."""
        self._every_row.routed(layer, at)
        if layer < self._last_layer:
            self._routes.routed(layer, at)
        elif self._wanted:
            self._routes.routed(layer, at.last(self._wanted))

    def computed(
        self, layer: int, at: LayerPass, gate_up: BlockTable, down: BlockTable, resident: U8
    ) -> None:
        """See `LayerObserver.computed`; routes are all that the other wants."""
        self._every_row.computed(layer, at, gate_up, down, resident)
