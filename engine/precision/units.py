"""What a unit of damage costs the model, layer by layer and for each kind of block.

An error in gate_up is one before the nonlinearity, one in down is added to the residual stream, and layers
differ in what follows them. So damage of different layers and kinds is not in one unit until it is measured:

    unit[layer, kind] = KL(full || its blocks at a lower width) / damage that is predicted for them

in nats a token, where the prediction is the sum over the experts of mass times damage at that width. Errors
of several layers do not simply add up, so all are scaled to what lower widths everywhere cost together. With
it, unit times mass times damage, summed over all blocks, is a guess of what a plan costs in nats a token.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ebbtide.engine.against_full import ROWS, divergence, predictions, rows_of
from ebbtide.engine.at_widths import U8, committed_for_now, every_plane, table_of, use_widths
from ebbtide.engine.precision.hull import F64
from ebbtide.engine.precision.prompt_errors import lower_widths
from ebbtide.engine.runtime import Progress, Runtime

F32 = NDArray[np.float32]

STAGE = "Measuring what errors of each layer cost"
PASSAGES, PASSAGE_TOKENS = 2, 256
"""Of the calibration's text. Twice as many passages change the factors by 8 % (median) in the starter."""
EVERY = 4
"""Predictions of one position in so many are compared: the scores of all words take most of the time."""
MOST_LAYERS = 32
"""Of a deeper model so many are measured, spread evenly; those between take their neighbours' means."""


def measure_units(
    runtime: Runtime,
    damage: F32,
    mass: F64,
    passages: Sequence[Sequence[int]],
    progress: Progress,
    cancelled: Callable[[], bool],
) -> F64 | None:
    """f64[layers, 2 (gate_up, down)], from texts that calibration may see; None where nothing costs anything.

    damage f32[layers, 2, experts, WIDTHS] per unit of routed mass, and that mass f64[layers, experts].

    The budget changes no bit of it. Raises EbbtideError where experts cannot be read, Cancelled.
    """
    texts = _spread(passages)
    full = every_plane(table_of(runtime))
    probe = lower_widths(full)
    predicted = predicted_damage(damage, mass, probe)
    measured = np.full(predicted.shape, np.nan)
    places = [(layer, kind) for layer in _layers(len(full)) for kind in (0, 1)]
    with committed_for_now(runtime):
        use_widths(runtime, full)
        kept = [_rows(runtime, ids, cancelled) for ids in texts]
        for done, (layer, kind) in enumerate(places):
            progress(STAGE, done, len(places))
            widths = full.copy()
            widths[layer, kind] = probe[layer, kind]
            use_widths(runtime, widths)
            measured[layer, kind] = _mean_divergence(runtime, texts, kept, cancelled)
        use_widths(runtime, probe)
        together = _mean_divergence(runtime, texts, kept, cancelled)
    progress(STAGE, len(places), len(places))
    return units_of(measured, predicted, together)


def units_of(measured: F64, predicted: F64, together: float) -> F64 | None:
    """f64[layers, 2] from what was measured (NaN = it was not) and predicted of each layer and kind, and was
    measured of all at once. None where nothing was measured.

    Where nothing is known between two layers, the logarithm goes straight from one to the other.
    """
    usable = (measured > 0) & (predicted > 0)
    logs = np.log(np.divide(measured, predicted, out=np.ones(measured.shape), where=usable))
    layers, result = np.arange(len(measured)), np.zeros(measured.shape)
    for kind in (0, 1):
        at = np.flatnonzero(usable[:, kind])
        if at.size:
            result[:, kind] = np.interp(layers, at, logs[at, kind])
    units: F64 = np.exp(result)
    expected = float((units * predicted).sum())
    if together <= 0 or expected <= 0 or not usable.any():
        return None
    return units * (together / expected)


def _spread(passages: Sequence[Sequence[int]]) -> list[NDArray[np.int32]]:
    """Beginnings of a few passages from all over the text."""
    some = passages[:: max(1, len(passages) // PASSAGES)][:PASSAGES]
    return [np.asarray(ids[:PASSAGE_TOKENS], np.int32) for ids in some]


def _layers(layers: int) -> list[int]:
    """Those that are measured, the first and the last among them."""
    found: list[int] = np.unique(np.linspace(0, layers - 1, min(layers, MOST_LAYERS)).round()).tolist()
    return [int(layer) for layer in found]


def predicted_damage(damage: F32, mass: F64, widths: U8) -> F64:
    """f64[layers, 2]: mass times damage at these widths, all experts of a layer together."""
    at = np.take_along_axis(damage, widths.astype(np.int64)[..., None], axis=3)[..., 0]
    total: F64 = (at.astype(np.float64) * mass[:, None]).sum(axis=2)
    return total


def _rows(runtime: Runtime, ids: NDArray[np.int32], cancelled: Callable[[], bool]) -> F32:
    """Last rows of every so many positions, f32[n, D]."""
    sequence = runtime.pool.new_sequence()
    try:
        return rows_of(runtime, ids, 0, sequence, cancelled)[EVERY - 1 :: EVERY].copy()
    finally:
        runtime.pool.release(sequence)


def _mean_divergence(
    runtime: Runtime, texts: Sequence[NDArray[np.int32]], kept: Sequence[F32], cancelled: Callable[[], bool]
) -> float:
    """Nats a position, at the widths that are committed."""
    nats: list[F64] = []
    for ids, full in zip(texts, kept, strict=True):
        rows = _rows(runtime, ids, cancelled)
        for at in range(0, len(rows), ROWS):
            pair = predictions(runtime, full[at : at + ROWS], rows[at : at + ROWS])
            nats.append(divergence(*pair))
    return float(np.concatenate(nats).mean()) if nats else 0.0
