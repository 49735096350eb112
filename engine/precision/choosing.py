"""Widths of an arm for a loaded model, from what is known about it: a calibration, else its weights alone."""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebbtide.engine import messages as m
from ebbtide.engine.against_full import scratch_bytes
from ebbtide.engine.at_widths import U8, hold_all, table_of
from ebbtide.engine.errors import UsageError
from ebbtide.engine.precision import arms
from ebbtide.engine.precision.costs import F64, Costs
from ebbtide.engine.precision.paged_arm import PagedArm
from ebbtide.engine.runtime import Progress, Runtime
from ebbtide.engine.weights.source import KINDS, WeightSource

TEXT_TOKENS = 1024
"""Texts of so many can be compared with every plane afterwards: more than `ebbtide eval` gives at once."""
DAMAGE_STAGE = "Measuring the error of each width"
LATER = {
    "dp": "chooses between two widths for every token",
}
HINT = "Give --arm uniform, static, paged or fp16."


class Known(NamedTuple):
    """Damage f64[layers, 2, experts, WIDTHS] per unit of routed mass, and that mass f64[layers, experts], or
    None where nothing is known about routing.
    """

    damage: F64
    mass: F64 | None
    unit: F64 | None = None
    """f64[layers, 2]: what damage of each layer and kind costs; None = it was not measured."""
    notice: str = ""


NO_HEADS = "The calibration has no residual heads, so there is nothing to leave out: this is the arm paged."


def choose(
    runtime: Runtime, command: m.Arm, progress: Progress, cancelled: Callable[[], bool]
) -> m.ArmWidths:
    """Answer an `Arm`, and bring all planes into memory. Raises UsageError for what cannot be had, FitError
    (with the budget that is enough) where not all planes fit, Cancelled.
    """
    runtime.paged_arm = None
    table = table_of(runtime)
    costs = Costs.of(table.layouts, table.experts)
    if command.arm in LATER:
        raise UsageError(
            f"--arm {command.arm} is not available yet in this version: it {LATER[command.arm]}", hint=HINT
        )
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
    found = known(runtime.source, command.cache_dir, progress, cancelled)
    if command.arm == "static":
        mass = np.ones(costs.shape[::2]) if found.mass is None else found.mass
        widths = arms.static(found.damage, mass, costs, command.bits, found.unit)
        return _answer(command, costs, widths, found.notice)
    runtime.paged_arm = PagedArm(costs, command.bits, *found[:3], command.without)
    notices = (found.notice, NO_HEADS if command.without == "residual" else "")
    return _answer(command, costs, runtime.paged_arm.widths, *notices)


def _answer(command: m.Arm, costs: Costs, widths: U8, *notices: str) -> m.ArmWidths:
    sixteen = command.arm == "fp16"
    return m.ArmWidths(
        command.request_id,
        widths=widths.tobytes(),
        average_bits=16.0 if sixteen else costs.average_bits(widths),
        expert_bytes=costs.bytes_in_16_bits if sixteen else costs.expert_bytes(widths),
        full_bytes=costs.expert_bytes(costs.full()),
        fp16_bytes=costs.bytes_in_16_bits,
        notices=[notice for notice in notices if notice],
        follows=command.arm == "paged",
    )


def known(source: WeightSource, cache_dir: str, progress: Progress, cancelled: Callable[[], bool]) -> Known:
    """A calibration's damage and mass; without one, damage of the weights alone and the no mass."""
    calibration = _calibration(source, cache_dir)
    if calibration is not None:
        damage = calibration.damage
        if damage is None:
            damage = _damage(source, calibration.moments, progress, cancelled)
        mass = np.asarray(calibration.moments.mass, np.float64)
        return Known(np.asarray(damage, np.float64), mass, calibration.unit)
    damage = _damage(source, None, progress, cancelled)
    notice = "Without a calibration, only the weights' errors count."
    return Known(np.asarray(damage, np.float64), None, None, notice)


def _calibration(source: WeightSource, cache_dir: str) -> Any:
    """The model's `Calibration`, or None. Raises ModelError for one that is damaged."""
    module = _part("calibration_file")
    if module is None or not cache_dir:
        return None
    key = module.model_key(source)
    path = module.calibration_path(Path(cache_dir), key)
    return module.Calibration.load(path, key, source.spec) if path.exists() else None


def _damage(source: WeightSource, moments: Any, progress: Progress, cancelled: Callable[[], bool]) -> Any:
    module = _part("damage")
    if module is None:
        raise UsageError("--arm static is not available yet in this version", hint=HINT)
    return module.all_damage(source, moments, partial(_report, progress, cancelled))


def _report(progress: Progress, cancelled: Callable[[], bool], done: int, total: int) -> None:
    from ebbtide.engine.model.forward import Cancelled

    if cancelled():
        raise Cancelled
    progress(DAMAGE_STAGE, done, total)


def _part(name: str) -> Any:
    """A module of this package that not every version has; None = this one has not."""
    full = f"{__package__}.{name}"
    try:
        return importlib.import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        return None


def _check_lossless(source: WeightSource) -> None:
    """Raise UsageError where planes hold less than the file does: with floats, of which they keep 8 bits."""
    for layer in range(source.spec.layers):
        for kind in KINDS:
            for view in source.expert_layout(layer, kind).views:
                if view.shape.format.name == "G8":
                    raise UsageError(
                        f"--arm fp16 cannot be computed for this file: the experts of layer {layer} are "
                        "floats, and planes keep 8 bits of them.",
                        hint="Give a file whose experts are quantised, such as Q8_0.",
                    )
