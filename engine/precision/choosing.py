"""Widths of an arm for a loaded model, from what is known about it: a calibration, else its weights alone."""

from collections.abc import Callable

import numpy as np

from ebbtide.engine import messages as m
from ebbtide.engine.against_full import scratch_bytes
from ebbtide.engine.at_widths import U8, hold_all, table_of
from ebbtide.engine.errors import UsageError
from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.precision import arms
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.known_damage import known_damage
from ebbtide.engine.precision.paged_arm import PagedArm
from ebbtide.engine.runtime import Progress, Runtime
from ebbtide.engine.weights.source import KINDS, WeightSource

TEXT_TOKENS = 1024
"""Texts of so many can be compared with every plane afterwards: more than `ebbtide eval` gives at once."""
NO_RESIDUALS = "No prompt residuals that help are known, so this is the arm paged with nothing left out."


def choose(
    runtime: Runtime, command: m.Arm, progress: Progress, cancelled: Callable[[], bool]
) -> m.ArmWidths:
    """Answer an `Arm`, and bring all planes into memory. Raises UsageError for what cannot be had, FitError
    (with the budget that is enough) where not all planes fit, Cancelled.
    """
    runtime.paged_arm = None
    table = table_of(runtime)
    costs = Costs.of(table.layouts, table.experts)
    if command.arm == "fp16":
        _check_lossless(runtime.source)
    else:
        costs.target_bytes(command.bits)
    hold_all(
        runtime,
        min(runtime.ctx, TEXT_TOKENS),
        sequences=2,
        scratch_bytes=scratch_bytes(runtime.spec),
        progress=progress,
    )
    if command.arm == "fp16":
        return _answer(command, costs, costs.full())
    if command.arm == "uniform":
        return _answer(command, costs, arms.uniform(costs, command.bits))
    report = cancellable(progress, cancelled)
    known = known_damage(runtime.source, command.cache_dir, runtime.room.threads, report)
    if command.arm == "static":
        mass = np.ones(costs.shape[::2]) if known.mass is None else known.mass
        widths = arms.static(known.damage, mass, costs, command.bits, known.unit)
        return _answer(command, costs, widths, *known.notices)
    residuals = known.residuals
    runtime.paged_arm = PagedArm(
        costs, command.bits, known.damage, known.mass, known.unit, residuals, command.without
    )
    notices = [] if residuals is None else [residuals.heads.sentence()]
    if command.without == "residual" and (residuals is None or not residuals.heads.helping):
        notices.append(NO_RESIDUALS)
    return _answer(command, costs, runtime.paged_arm.widths, *known.notices, *notices)


def _answer(command: m.Arm, costs: Costs, widths: U8, *notices: str) -> m.ArmWidths:
    sixteen = command.arm == "fp16"
    return m.ArmWidths(
        command.request_id,
        widths=widths.tobytes(),
        average_bits=16.0 if sixteen else costs.average_bits(widths),
        expert_bytes=costs.bytes_in_16_bits if sixteen else costs.expert_bytes(widths),
        full_bytes=costs.expert_bytes(costs.full()),
        fp16_bytes=costs.bytes_in_16_bits,
        notices=list(notices),
        follows=command.arm == "paged",
    )


def cancellable(progress: Progress, cancelled: Callable[[], bool]) -> Progress:
    """Progress that raises Cancelled where somebody cancels."""

    def report(stage: str, done: int, total: int) -> None:
        if cancelled():
            raise Cancelled
        progress(stage, done, total)

    return report


def _check_lossless(source: WeightSource) -> None:
    """Raise UsageError where planes hold less than the file does: with floats, of which they keep 8 bits,
    and with any-precision codes.
    """
    for layer in range(source.spec.layers):
        for kind in KINDS:
            for view in source.expert_layout(layer, kind).views:
                if view.shape.format.own_tables:
                    raise UsageError(
                        "--arm fp16 cannot be computed for a pack with any-precision codes: the weights that "
                        "they were made from are not in it.",
                        hint="Give the model file.",
                    )
                if view.shape.format.name == "G8":
                    raise UsageError(
                        f"--arm fp16 cannot be computed for this file: the experts of layer {layer} are "
                        "floats, and planes keep 8 bits of them.",
                        hint="Give a file whose experts are quantised, such as Q8_0.",
                    )
