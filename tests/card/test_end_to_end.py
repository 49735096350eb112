"""Tiny models through everything that runs on a card: the driver's door, late queues, Triton's kernels."""

import math
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import GridExecutor

from ebbtide.engine import messages as m
from ebbtide.engine.device.card_memory import CardMemory
from ebbtide.engine.device.driver import DriverError
from ebbtide.engine.loop import Engine
from ebbtide.engine.memory.host_tier import HostTier
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.observer import look_at_machine
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import teacher_forced
from tests.helpers.float_reference import FloatReference
from tests.helpers.host_card import HostCard
from tests.helpers.in_process import Script, generate, load, of, run
from tests.helpers.narrowed import narrowed
from tests.helpers.tiny_models import Family, write_tiny

SIZES: dict[str, Any] = {
    "d_model": 32,
    "heads": 2,
    "kv_heads": 1,
    "head_dim": 16,
    "layers": 1,
    "quant": "Q4_0",
}
SIZES |= {"d_ff": 32, "experts": 4, "expert_d_ff": 32, "shared_d_ff": 32, "seed": 5}
"""The interpreter needs a hundredth of a second for what a card does in a millionth: as small as can be."""
IDS = [17, 271, 6]
MOVES = {"copy_", "new_empty", "empty", "set_", "view", "slice", "select", "unsqueeze", "detach", "alias"}
"""What torch may do itself during a pass: views, and copies between host and card."""
MOVES |= {"lift_fresh", "reshape", "_reshape_alias", "as_strided", "expand", "transpose"}


def loaded(
    folder: Path,
    family: Family,
    budget: str = "100%",
    layers: int = 1,
    *,
    width: int = 0,
    quant: str = "Q4_0",
) -> Runtime:
    path = write_tiny(folder / f"{family}.gguf", family, **SIZES | {"layers": layers, "quant": quant})
    return Runtime.load(load(path, budget=budget, pack="no", width=width), lambda *_: None)


def logits(runtime: Runtime, lane: Lane) -> np.ndarray[Any, Any]:
    found: list[np.ndarray[Any, Any]] = []
    teacher_forced(runtime, IDS, lane, lambda: False, lambda _, rows: found.append(rows.copy()))
    return np.concatenate(found)


@pytest.mark.parametrize("family", ["llama", "mixtral", "olmoe", "qwen2moe", "qwen3moe"])
def test_logits_follow_the_float_reference_in_both_lanes(
    tmp_path: Path, card: HostCard, family: Family
) -> None:
    runtime = loaded(tmp_path, family, layers=2 if family in ("olmoe", "qwen3moe") else 1)
    prefill, decode = (logits(runtime, lane) for lane in (Lane.PREFILL, Lane.DECODE))
    assert runtime.loaded().isa == "sm_86" and runtime.room.threads == 0
    runtime.close()
    assert card.library.blocks == {} and card.library.pinned == {}
    assert (prefill == decode).all(), "the lanes must agree bit for bit"
    exact = FloatReference(tmp_path / f"{family}.gguf", bf16_kv=True).logits(IDS).numpy()
    worst = float(np.abs(prefill - exact).max() / np.abs(exact).max())
    print(f"{family}: logits within {worst:.1e} of the reference")
    assert worst < 1e-3


@pytest.mark.parametrize(("quant", "width"), [("Q4_0", 1), ("Q8_0", 3), ("Q8_0", 6)])
def test_logits_at_a_lower_width_are_those_of_the_truncated_planes(
    tmp_path: Path, card: HostCard, quant: str, width: int
) -> None:
    runtime = loaded(tmp_path, "mixtral", "0%", width=width, quant=quant)
    prefill, decode = (logits(runtime, lane) for lane in (Lane.PREFILL, Lane.DECODE))
    runtime.fast.check_integrity()
    assert runtime.loaded().width == width and runtime.memory().peak_bytes <= runtime.plan.budget_bytes
    assert runtime.pager is not None and runtime.pager.misses > SIZES["experts"], "nothing was paged"
    runtime.close()
    assert (prefill == decode).all(), "the lanes must agree bit for bit"
    exact = narrowed(tmp_path / "mixtral.gguf", width, bf16_kv=True).logits(IDS).numpy()
    assert float(np.abs(prefill - exact).max() / np.abs(exact).max()) < 1e-3


def test_a_lower_width_takes_less_of_card_and_host(tmp_path: Path, card: HostCard) -> None:
    """Pages, the staging ring, and experts that are kept in front of the disk."""
    plans, kept = {}, {}
    for width in (0, 3):
        runtime = loaded(tmp_path, "mixtral", width=width, quant="Q8_0")
        assert runtime.pager is not None
        runtime.pager.warm()
        plans[width] = runtime.plan
        kept[width] = tier_of(runtime).kept_bytes
        assert kept[width] == runtime.memory().expert_bytes == plans[width].expert_bytes
        runtime.close()
    assert plans[3].transient_bytes < plans[0].transient_bytes
    assert kept[3] < kept[0]


def tier_of(runtime: Runtime) -> HostTier:
    """What is in front of the disk."""
    assert runtime.pager is not None
    tier = runtime.pager._mover._source  # type: ignore[attr-defined]
    assert isinstance(tier, HostTier)
    return tier


def test_same_tokens_at_every_budget_within_the_ledger(tmp_path: Path, card: HostCard) -> None:
    path = write_tiny(tmp_path / "m.gguf", "qwen3moe", **SIZES)
    answers = []
    for seed, budget in enumerate(("100%", "50%", "0%")):
        card.library.queues = type(card.library.queues)(seed)
        events = run(load(path, budget=budget, pack="no"), generate(text="def(", max_tokens=3))
        answers += of(events, m.Finished)
        assert not of(events, m.Failed)
    assert len({tuple(answer.token_ids) for answer in answers}) == 1 and len(answers[0].token_ids) == 3
    rates = [answer.memory.expert_hit_rate for answer in answers]
    assert rates[2] < rates[0]
    for answer in answers:
        assert answer.memory.peak_bytes <= answer.memory.budget_bytes
    sizes = [answer.memory.budget_bytes for answer in answers]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3


class Watched(TorchDispatchMode):
    """Counts what torch computes by itself."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[op.overloadpacket.__name__] += 1
        return op(*args, **(kwargs or {}))


def test_every_operation_is_a_kernel_of_tritons(
    tmp_path: Path, card: HostCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = loaded(tmp_path, "qwen2moe")
    launches: Counter[str] = Counter()
    launch = GridExecutor.__call__

    def count(self: Any, *args: Any, **kwargs: Any) -> Any:
        launches[self.fn.__name__] += 1
        return launch(self, *args, **kwargs)

    monkeypatch.setattr(GridExecutor, "__call__", count)
    sequence = runtime.pool.new_sequence()
    runtime.pool.extend(sequence, 1, Provenance(Lane.DECODE, "bf16"))
    with Watched() as watched:
        rows = runtime.forward.hidden(np.array([7], np.int32), 0, runtime.kv_view(sequence), lambda: False)
        runtime.forward.logits(rows, runtime.logits[:1])
    runtime.pool.release(sequence)
    runtime.close()
    layers = SIZES["layers"]
    scattered = launches.pop("scatter_kernel")
    assert scattered == 2 * 2 * layers, "two blocks of each of two experts a layer"
    # q, k, v, output; a shared expert's gate, up and down; once the scores of the next token.
    assert launches == {
        "embed_kernel": 1,
        "rmsnorm_kernel": 2 * layers + 1,
        "linear_kernel": 7 * layers + 1,
        "arrange_kernel": 5 * layers + 1,
        "rope_kernel": layers,
        "kv_write_kernel": layers,
        "split_kernel": layers,
        "merge_kernel": layers,
        "score_kernel": layers,
        "select_kernel": layers,
        "hidden_kernel": layers,
        "down_kernel": layers,
        "glu_kernel": layers,
        "row_gate_kernel": layers,
        "combine_kernel": 2 * layers,
    }
    assert set(watched.seen) <= MOVES, set(watched.seen) - MOVES


def test_what_was_planned_is_what_is_held(tmp_path: Path, card: HostCard) -> None:
    runtime = loaded(tmp_path, "qwen3moe")
    (place,), plan = card.places, runtime.plan
    arena = runtime.fast.arena
    on_card = sum(size for _, size in card.library.blocks.values())
    assert on_card - arena.mapped_bytes <= plan.static_bytes + plan.transient_bytes
    assert place.tensors.held_bytes < on_card
    assert math.isclose(plan.budget_bytes, plan.static_bytes + plan.transient_bytes, rel_tol=0.5)
    runtime.close()


def test_a_cancelled_pass_leaves_a_valid_prefix(tmp_path: Path, card: HostCard) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES | {"layers": 2})
    commands = generate(1, text="x=", max_tokens=1), generate(2, text="x=", max_tokens=1)
    events = run(load(path, budget="0%", pack="no"), *commands, cancel_after=2)
    first, second = of(events, m.Finished)
    assert first.finish_reason == "cancelled" and second.finish_reason == "length"
    (alone,) = of(run(load(path, pack="no"), commands[1]), m.Finished)
    assert alone.token_ids == second.token_ids


def test_the_processor_is_used_where_it_is_asked_for(tmp_path: Path, card: HostCard) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES)
    (done,) = of(run(load(path, pack="no", device="cpu")), m.Loaded)
    assert done.threads == 2 and not card.places


def test_a_pass_takes_no_memory_of_its_own(tmp_path: Path, card: HostCard) -> None:
    runtime = loaded(tmp_path, "qwen2moe")
    held = card.places[0].tensors.held_bytes, card.library.calls.count("cuMemAlloc_v2")
    sequence = runtime.pool.new_sequence()
    runtime.pool.extend(sequence, 1, Provenance(Lane.DECODE, "bf16"))
    slabs = card.library.calls.count("cuMemAlloc_v2")
    ids = np.array([7], np.int32)
    rows = runtime.forward.hidden(ids, 0, runtime.kv_view(sequence), lambda: False)
    runtime.forward.logits(rows, runtime.logits[:1])
    assert card.places[0].tensors.held_bytes == held[0]
    assert card.library.calls.count("cuMemAlloc_v2") == slabs >= held[1]
    runtime.pool.release(sequence)
    runtime.close()


def test_kernels_are_compiled_before_somebody_waits(
    tmp_path: Path, card: HostCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.helpers.host_card.HostSide.compiles", True)
    monkeypatch.setattr("ebbtide.engine.card_room.REHEARSAL_ROWS", 2)
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES)
    stages: list[str] = []
    runtime = Runtime.load(load(path, budget="0%", pack="no"), lambda stage, *_: stages.append(stage))
    assert stages[-2:] == ["Preparing the card"] * 2
    assert runtime.pager is not None and runtime.pager.misses == 0 and not runtime.pager.uses().any()
    runtime.fast.check_integrity()
    runtime.close()


def test_who_watches_sees_the_cards_memory_from_a_thread_of_its_own(tmp_path: Path, card: HostCard) -> None:
    seen: list[m.Machine] = []

    def emit(event: m.Event) -> None:
        if isinstance(event, m.Finished):
            observer = threading.Thread(target=lambda: seen.append(look_at_machine(engine.card)))
            observer.start()
            observer.join()

    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES)
    engine = Engine(emit, Script(load(path, pack="no"), generate(text="def(", max_tokens=1)))
    assert engine.card() is None
    engine.run()
    (machine,) = seen
    found = card.places[0].card
    assert machine.card == found.name and machine.card_total_bytes == found.total_bytes
    assert machine.card_free_bytes is not None and 0 < machine.card_free_bytes < found.total_bytes
    assert machine.card_own_bytes is None, "this driver has no list of programs"
    assert machine.process_bytes is not None


def test_a_card_that_is_lost_has_no_figures(card: HostCard) -> None:
    place, _ = card.find("auto")
    assert place is not None

    def find() -> tuple[str, CardMemory]:
        raise DriverError("the context is gone", 201)

    machine = look_at_machine(find)
    assert machine.card == "" and machine.card_free_bytes is None and machine.process_bytes is not None
    place.close()


@pytest.mark.parametrize("device", ["auto", "cuda:0"])
def test_weights_in_a_table_stay_off_the_card(tmp_path: Path, card: HostCard, device: str) -> None:
    """Refused before a byte of the card is taken; where the device is left open, the processor takes them."""
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **SIZES | {"quant": "IQ4_NL"})
    events = run(load(path, device=device, pack="no"), generate(max_tokens=2))
    assert card.library.blocks == {} and card.library.pinned == {}
    if device == "auto":
        (loaded_event,) = of(events, m.Loaded)
        assert any("No card is used: Weights of type IQ4_NL" in notice for notice in loaded_event.notices)
        assert len(of(events, m.Finished)[0].token_ids) == 2
    else:
        failed = of(events, m.Failed)[0]
        assert "IQ4_NL" in failed.message and "--device cpu" in failed.hint
