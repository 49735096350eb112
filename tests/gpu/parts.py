"""The parts of the check, in order, and what each of them needs."""

import importlib
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.gpu.ground import Ground
from tests.gpu.machine import check_machine, missing
from tests.gpu.runner import Emit, Part

CHECKS = "torch", "triton", "numpy"
MODELS = (*CHECKS, "msgspec", "gguf", "psutil", "tokenizers", "jinja2")


class Entry(NamedTuple):
    """`function` is module.name below tests.gpu; seconds as in `Part`."""

    name: str
    function: str
    least_s: float
    most_s: float
    alone: bool = False
    needs: tuple[str, ...] = CHECKS


ENTRIES = (
    Entry("machine", "", 5, 150, needs=()),
    Entry("products scale", "planes.check_scale", 15, 180),
    Entry("products minimum", "planes.check_minimum", 15, 180),
    Entry("products nested", "planes.check_nested", 15, 180),
    Entry("experts", "planes.check_experts", 15, 150),
    Entry("vectors", "vectors.check_vectors", 15, 120),
    Entry("pages", "paged.check_pages", 15, 120),
    Entry("attention Qwen3-30B", "paged.check_qwen", 15, 180),
    Entry("attention OLMoE", "paged.check_olmoe", 15, 180),
    Entry("attention starter", "paged.check_starter", 15, 180),
    Entry("make Qwen3-30B", "models.make_qwen", 30, 180, needs=MODELS),
    Entry("make OLMoE", "models.make_olmoe", 30, 180, needs=MODELS),
    Entry("make starter", "models.make_starter", 30, 180, needs=MODELS),
    Entry("compile attention", "speed.compile_attention", 15, 180),
    Entry("compile experts", "speed.compile_experts", 15, 180),
    Entry("compile gemv", "speed.compile_gemv", 15, 180),
    Entry("copies", "copies.check_copies", 10, 60, alone=True),
    Entry("gemv speed", "speed.check_gemv_speed", 15, 90, alone=True),
    Entry("experts speed", "speed.check_expert_speed", 15, 90, alone=True),
    Entry("attention speed", "speed.check_attention_speed", 15, 60, alone=True),
    Entry("memory", "memory.check_memory", 15, 60, alone=True),
    Entry("Qwen3-30B", "models.check_qwen", 30, 120, alone=True, needs=MODELS),
    Entry("OLMoE", "models.check_olmoe", 30, 110, alone=True, needs=MODELS),
    Entry("starter", "models.check_starter", 30, 90, alone=True, needs=MODELS),
)
"""Right numbers first, side by side; then what is measured, one after the other."""


def chosen_parts(only: str, broken: str, *, dry: bool, seed: int, folder: Path) -> list[Part]:
    """Those named in `only`, all where it is empty. `broken`: a part that is made to fail.

    Raises SystemExit for a name that is no part.
    """
    known = [entry.name for entry in ENTRIES]
    names = [name.strip() for name in only.split(",") if name.strip()] or known
    if unknown := set(names) - set(known):
        raise SystemExit(f"no part {', '.join(sorted(unknown))}; parts: {', '.join(known)}")
    return [
        Part(
            entry.name,
            partial(_work, entry, broken == entry.name, dry, seed, folder),
            0 if dry else entry.least_s,
            entry.most_s,
            entry.alone and not dry,
        )
        for entry in ENTRIES
        if entry.name in names
    ]


def _work(
    entry: Entry, is_broken: bool, dry: bool, seed: int, folder: Path, emit: Emit, deadline: float
) -> None:
    if not missing(("torch",)):
        import torch

        torch.manual_seed(seed)
    ground = Ground(entry.name, emit, dry=dry, seed=seed, deadline=deadline, folder=folder)
    if is_broken:
        raise RuntimeError("made to fail")
    if lacking := missing(entry.needs):
        ground.row("all", passed=False, note=f"not done: no {', '.join(lacking)} here")
    elif not entry.function:
        check_machine(ground, {each.name: each.needs for each in ENTRIES})
    else:
        module, name = entry.function.split(".")
        getattr(importlib.import_module(f"tests.gpu.{module}"), name)(ground)
