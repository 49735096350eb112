"""Whole models on a card: the same tokens at every budget, and how fast they come.

Files are made here. Of the large ones only some layers are: what a token costs is then as many times less,
and budgets are shares of the experts, so that hit rates are those of the whole model.
"""

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ebbtide.engine import messages as m
from ebbtide.engine import runtime as engine_runtime
from ebbtide.engine.memory.budget import headroom_bytes
from tests.gpu.ground import Ground
from tests.gpu.model_file import bytes_of, write_model
from tests.gpu.rows import shown
from tests.gpu.shapes import OLMOE, QWEN, STARTER, ModelShape, tiny
from tests.helpers.in_process import TEXT, generate, load, of, run

LAYERS = {STARTER.name: 30, OLMOE.name: 4, QWEN.name: 4}
"""As many as can be written, packed and loaded several times in a minute or two."""
CARDS_GB = (8, 12, 16, 24)
PCIE_GB_S = {"PCIe 3": 12, "PCIe 4": 24, "PCIe 5": 48}
"""What sixteen lanes give."""
BESIDE_EXPERTS_GB = 1.5
"""Of a card: context, workspace, keys and values."""


class Answer(NamedTuple):
    """What a load and two answers came to; speeds and rates are the second's, with the experts of the first
    in place.
    """

    loaded: m.Loaded
    first: m.Finished
    second: m.Finished


def check_starter(ground: Ground) -> None:
    """See `check_model`."""
    check_model(ground, STARTER)


def check_olmoe(ground: Ground) -> None:
    """See `check_model`."""
    check_model(ground, OLMOE)


def check_qwen(ground: Ground) -> None:
    """See `check_model`."""
    check_model(ground, QWEN)


def make_starter(ground: Ground) -> None:
    """See `make_model`."""
    make_model(ground, STARTER)


def make_olmoe(ground: Ground) -> None:
    """See `make_model`."""
    make_model(ground, OLMOE)


def make_qwen(ground: Ground) -> None:
    """See `make_model`."""
    make_model(ground, QWEN)


def make_model(ground: Ground, model: ModelShape) -> None:
    """Write the file; load it once, so that its pack is there and its kernels are compiled."""
    path, layers = _path(ground, model), 1 if ground.dry else LAYERS[model.name]
    shape = tiny(model) if ground.dry else model
    began = time.monotonic()
    unfinished = path.with_suffix(".part")
    size = write_model(unfinished, shape, layers, ground.seed)
    unfinished.rename(path)
    written = f"{layers} of {shape.layers} layers, random weights, Q4_0; {time.monotonic() - began:.1f} s"
    ground.row("file", size / 1e9, "GB", goal="written", passed=True, note=written)
    if not ground.dry:
        began = time.monotonic()
        answer = _answer(ground, path, budget="100%")
        note = f"with its pack and its kernels; {answer.loaded.load_s:.1f} s of it the load"
        ground.row("first answer", time.monotonic() - began, "s", note=note)


def _path(ground: Ground, model: ModelShape) -> Path:
    return ground.folder / f"{model.name}.gguf"


def check_model(ground: Ground, model: ModelShape) -> None:
    """Load a model of this shape at several budgets on the card, and once on the processor."""
    path = _path(ground, model)
    if not path.exists():  # its maker was not asked for
        make_model(ground, model)
    _budgets(ground, model, path)
    with ground.case("a card made smaller"):
        _smaller(ground, path)
    with ground.case("processor"):
        _processor(ground, path)
    ground.row("static layer offload, CPU split", note="not measured: not in this version")


def _budgets(ground: Ground, model: ModelShape, path: Path) -> None:
    wanted: list[int] | None = None
    for name, options in _arms(ground, model):
        if ground.left_s < 10 and not ground.dry:
            ground.row(name, passed=False, note=f"left out: {ground.left_s:.0f} s are left")
            continue
        with ground.case(name):
            answer = _answer(ground, path, **options)
            _tell_tokens(ground, name, answer, wanted)
            _tell(ground, name, answer)
            wanted = wanted or answer.second.token_ids


def _arms(ground: Ground, model: ModelShape) -> Iterator[tuple[str, dict[str, str]]]:
    """(what it is called, options of the load)"""
    for percent in (100, 0) if ground.dry else (100, 50, 25, 0):
        yield f"{percent} % of experts", {"budget": f"{percent}%"}
    if ground.dry:
        return
    experts_gb = (bytes_of(model, model.layers) - bytes_of(model, 0)) / 1e9
    dense_gb = bytes_of(model, 0) / 1e9
    for card in CARDS_GB:
        held = 100 * (card - BESIDE_EXPERTS_GB - dense_gb) / experts_gb
        if held < 100:
            for generation, rate in PCIE_GB_S.items():
                if generation == "PCIe 4" or card == CARDS_GB[0]:
                    options = {"budget": f"{max(held, 0):.0f}%", "emulate": f"pcie={rate}GB/s"}
                    yield f"as on {card} GB, {generation}", options


def _tell_tokens(ground: Ground, name: str, answer: Answer, wanted: list[int] | None) -> None:
    """Both answers begin alike, and are what the first budget gave. A dry run has one answer a budget."""
    first, tokens = answer.first.token_ids, answer.second.token_ids
    passed: bool | None = first == tokens[: len(first)] and wanted in (None, tokens)
    if wanted is None and ground.dry:
        passed = None
    goal = "" if passed is None else "begins alike" if wanted is None else "the same"
    ground.row(f"{name}, tokens", float(len(tokens)), "tokens", goal=goal, passed=passed)


def _tell(ground: Ground, name: str, answer: Answer) -> None:
    second, memory = answer.second, answer.second.memory
    ground.row(f"{name}, decode", second.timings.decode_tok_s, "tok/s")
    ground.row(
        f"{name}, prefill", second.timings.prefill_tok_s, "tok/s", note=f"{second.usage.prompt} tokens"
    )
    paged = memory.bytes_paged_in / 1e6
    ground.row(f"{name}, hit rate", 100 * memory.expert_hit_rate, "%", note=f"{paged:.1f} MB from the file")
    is_within = memory.peak_bytes <= memory.budget_bytes
    note = f"loaded in {answer.loaded.load_s:.1f} s"
    goal = f"<= {shown(memory.budget_bytes / 2**20)}"
    ground.row(f"{name}, peak", memory.peak_bytes / 2**20, "MiB", goal=goal, passed=is_within, note=note)


def _smaller(ground: Ground, path: Path) -> None:
    """A card that looks as if it had less memory: that is kept to, and said."""
    whole = _loaded(ground, path, budget="auto")
    wanted = (whole.memory.budget_bytes + whole.smallest_budget_bytes) // 2
    place, _ = ground.find_place("auto")
    assert place is not None
    held = place.total_bytes - place.free_bytes - place.overhead_bytes
    place.close()
    size = wanted + held + headroom_bytes(wanted + held)
    loaded = _loaded(ground, path, budget="auto", emulate=f"vram={size}")
    budget, without = loaded.memory.budget_bytes, whole.memory.budget_bytes >> 20
    is_said = any("Emulated" in notice for notice in loaded.notices)
    ground.row(
        f"budget on {size / 1e9:.2f} GB, emulated",
        budget / 2**20,
        "MiB",
        goal="less, and said",
        passed=is_said and loaded.smallest_budget_bytes <= budget < whole.memory.budget_bytes,
        note=f"{without} without; {loaded.isa}",
    )


def _processor(ground: Ground, path: Path) -> None:
    answer = _answer(ground, path, budget="100%", device="cpu")
    note = f"{answer.loaded.threads} threads, {answer.loaded.isa}"
    ground.row("processor, decode", answer.second.timings.decode_tok_s, "tok/s", note=note)
    ground.row("processor, prefill", answer.second.timings.prefill_tok_s, "tok/s")


def _loaded(ground: Ground, path: Path, **options: Any) -> m.Loaded:
    """Load, and no more."""
    loaded: m.Loaded = _events(ground, path, options)[0]
    return loaded


def _answer(ground: Ground, path: Path, **options: Any) -> Answer:
    """Load, answer, forget the prompt, answer again."""
    text = "d" if ground.dry else TEXT[:300]
    few = 2 if ground.part == STARTER.name else 1  # the interpreter takes a second for each
    sampling = m.Sampling(temperature=1.0, seed=ground.seed)
    first, second = (
        generate(number, text=text, max_tokens=few if ground.dry else tokens, sampling=sampling)
        for number, tokens in ((1, 16), (2, 64))
    )
    again = () if ground.dry else (m.Clear(), second)
    loaded, *answers = _events(ground, path, options, first, *again)
    return Answer(loaded, answers[0], answers[-1])


def _events(ground: Ground, path: Path, options: dict[str, Any], *commands: m.Command) -> list[Any]:
    """What came of a load and commands: `Loaded`, then each `Finished`. Raises RuntimeError for a refusal."""
    everything: dict[str, Any] = {"ctx": 32 if ground.dry else 1024, "pack": "no" if ground.dry else "yes"}
    everything |= {"device": "auto" if ground.dry else "cuda:0", "threads": 2 if ground.dry else 0} | options
    engine_runtime.find_place = ground.find_place  # type: ignore[attr-defined]
    events = run(load(path, **everything), *commands)
    for failed in of(events, m.Failed):
        raise RuntimeError(f"{failed.message} {failed.hint}\n{failed.detail}")
    gc.collect()
    return of(events, m.Loaded) + of(events, m.Finished)
