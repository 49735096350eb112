"""Experts at one lower width through the engine: right logits, fewer bytes, and never taken for exact."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.memory.provenance import Lane, Provenance
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import teacher_forced
from tests.helpers.attention_kernels import isas
from tests.helpers.in_process import TEXT, generate, load, of, run
from tests.helpers.narrowed import narrowed
from tests.helpers.random_blocks import SUPER_TYPES
from tests.helpers.tiny_models import EIGHT_EXPERTS, Family, write_tiny

TOKENS = 120


def logits(path: Path, lane: Lane, tokens: int = TOKENS, **fields: Any) -> NDArray[np.float32]:
    """f32[tokens, vocabulary] of an engine that was loaded like this; its memory is checked afterwards."""
    runtime = Runtime.load(load(path, **fields), lambda *_: None)
    found: list[NDArray[np.float32]] = []
    ids = token_ids(runtime)[:tokens]
    teacher_forced(runtime, ids, lane, lambda: False, lambda _, rows: found.append(rows.copy()))
    runtime.fast.check_integrity()
    runtime.close()
    return np.concatenate(found)


def token_ids(runtime: Runtime) -> list[int]:
    return runtime.tokenizer.encode(TEXT, add_bos=False, parse_special=False)[:TOKENS]


def wrong_rows(found: NDArray[np.float32], path: Path, width: int) -> float:
    """Share of rows that differ from the reference by more than roundings on the way explain."""
    runtime = Runtime.load(load(path), lambda *_: None)
    ids = token_ids(runtime)[: len(found)]
    runtime.close()
    expected = narrowed(path, width).logits(ids).numpy()
    return float((np.abs(found - expected).max(axis=1) > 0.02 * np.abs(expected).max()).mean())


@pytest.mark.parametrize("width", range(1, 8))
def test_logits_are_those_of_the_truncated_planes(mixtral: Path, width: int) -> None:
    prefill, decode = (logits(mixtral, lane, width=width) for lane in (Lane.PREFILL, Lane.DECODE))
    assert (prefill == decode).all(), "the lanes must agree bit for bit at every width"
    # A rounding may swap two experts of nearly equal score: right, but another answer for that row.
    assert wrong_rows(prefill, mixtral, width) <= 0.1
    assert wrong_rows(prefill, mixtral, 8) > 0.5 or width > 5, "at this width nothing was left out"


@pytest.mark.parametrize(
    ("family", "quant"),
    [
        ("qwen2moe", "Q4_1"),
        ("qwen3moe", "Q5_1"),
        ("mixtral", "Q4_0"),
        ("mixtral", "Q6_K"),
        ("olmoe", "IQ4_NL"),
        ("mixtral", "IQ4_XS"),
        ("mixtral", "MXFP4"),
    ],
)
def test_every_kind_of_scale_at_three_planes(folder: Path, family: Family, quant: str) -> None:
    sizes = EIGHT_EXPERTS | ({"d_model": 256, "heads": 8, "d_ff": 256} if quant in SUPER_TYPES else {})
    path = write_tiny(folder / f"{family}-{quant}.gguf", family, quant=quant, seed=3, **sizes)
    prefill, decode = (logits(path, lane, width=3, pack="no") for lane in (Lane.PREFILL, Lane.DECODE))
    assert (prefill == decode).all() and wrong_rows(prefill, path, 3) <= 0.1


@pytest.mark.parametrize("width", [5, 6, 7])
def test_blocks_with_fewer_planes_keep_all_of_theirs(uneven: Path, width: int) -> None:
    assert wrong_rows(logits(uneven, Lane.PREFILL, width=width), uneven, width) <= 0.1
    (finished,) = of(run(load(uneven, width=width), generate(max_tokens=2)), m.Finished)
    counts = {planes: count for planes, count in finished.memory.width_histogram.items() if count}
    counts.pop("0", None)  # experts that nothing has routed to yet
    assert set(counts) == {"5", str(width)} and len(set(counts.values())) == 1


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("width", [1, 3, 6])
def test_every_instruction_set_computes_at_a_lower_width(mixtral: Path, isa: str, width: int) -> None:
    fields: dict[str, Any] = {"isa": isa, "width": width, "budget": "30%"}
    prefill, decode = (logits(mixtral, lane, 40, **fields) for lane in (Lane.PREFILL, Lane.DECODE))
    assert (prefill == decode).all() and wrong_rows(prefill, mixtral, width) <= 0.1


def test_the_specification_computes_at_a_lower_width(mixtral: Path) -> None:
    fields: dict[str, Any] = {"isa": "reference", "width": 3, "budget": "30%"}
    assert wrong_rows(logits(mixtral, Lane.PREFILL, 20, **fields), mixtral, 3) <= 0.1


def test_all_planes_by_their_number_change_no_bit(mixtral: Path, uneven: Path) -> None:
    for path, width in ((mixtral, 8), (uneven, 8)):
        for lane in (Lane.PREFILL, Lane.DECODE):
            assert (logits(path, lane, 40, width=width) == logits(path, lane, 40)).all()
        runtime = Runtime.load(load(path, width=width), lambda *_: None)
        assert runtime.fast.is_exact and (runtime.loaded().width, runtime.loaded().planes) == (8, 8)
        assert not any("not exact" in notice for notice in runtime.notices)
        runtime.close()


def test_same_tokens_at_every_budget_and_thread_count(mixtral: Path) -> None:
    outcomes = {}
    for budget, threads in (("100%", 2), ("60%", 1), ("20%", 2), ("0%", 3)):
        events = run(load(mixtral, budget=budget, threads=threads, width=3), generate())
        outcomes[budget] = of(events, m.Finished)[0]
        assert outcomes[budget].memory.peak_bytes <= outcomes[budget].memory.budget_bytes
    assert len({tuple(finished.token_ids) for finished in outcomes.values()}) == 1
    assert outcomes["0%"].memory.expert_hit_rate < outcomes["100%"].memory.expert_hit_rate


@pytest.mark.parametrize("pack", ["yes", "no"])
def test_a_budget_in_bytes_holds_more_experts_at_a_lower_width(tmp_path: Path, pack: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **EIGHT_EXPERTS)
    whole = of(run(load(path, pack=pack)), m.Loaded)[0]
    budget = str(whole.memory.budget_bytes if pack == "no" else whole.smallest_budget_bytes)
    loaded, held = {}, {}
    for width in (0, 4, 2):
        runtime = Runtime.load(load(path, budget=budget, width=width, pack=pack), lambda *_: None)
        assert runtime.pager is not None
        loaded[width], held[width] = runtime.loaded(), sum(runtime.pager.quotas)
        runtime.pager.warm()
        runtime.fast.check_integrity()
        assert runtime.memory().peak_bytes <= runtime.plan.budget_bytes
        runtime.close()
    if pack == "yes":
        assert held[0] == EIGHT_EXPERTS["layers"] and held[0] < held[4] < held[2]
    for narrow, wide in ((4, 0), (2, 4)):
        assert loaded[narrow].expert_bytes < loaded[wide].expert_bytes
        assert loaded[narrow].smallest_budget_bytes < loaded[wide].smallest_budget_bytes


def test_a_pack_serves_every_width_and_less_of_it_is_read(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "mixtral", **EIGHT_EXPERTS)
    assert of(run(load(path, width=2)), m.Loaded)
    (pack,) = (tmp_path / "packs").iterdir()
    made_at, read = pack.stat().st_mtime_ns, {}
    for width in (0, 4, 2):
        events = run(load(path, budget="0%", width=width), generate(max_tokens=4))
        read[width] = of(events, m.Finished)[0].memory.bytes_paged_in
        runtime = Runtime.load(load(path, width=width), lambda *_: None)
        assert runtime.fast.table is not None
        each = runtime.fast.table.pages_per_expert[0] * runtime.plan.page_bytes
        assert read[width] % each == 0, "whole experts at this width, and nothing else, were read"
        runtime.close()
    assert read[0] > read[4] > read[2] > 0
    assert pack.stat().st_mtime_ns == made_at


def test_what_is_computed_at_a_lower_width_is_not_exact(mixtral: Path) -> None:
    runtime = Runtime.load(load(mixtral, width=4), lambda *_: None)
    assert not runtime.fast.is_exact and (runtime.loaded().width, runtime.loaded().planes) == (4, 8)
    assert any("top 4 of 8 planes" in notice for notice in runtime.notices)
    seen: list[Provenance] = []

    def look(*_: object) -> None:
        seen.extend(block.provenance for sequence in runtime.pool._sequences for block in sequence.blocks)

    teacher_forced(runtime, token_ids(runtime), Lane.PREFILL, lambda: False, look)
    assert seen and not any(provenance.exact for provenance in seen)
    runtime.close()


def test_a_prefix_of_the_same_width_is_used_again(mixtral: Path) -> None:
    command = load(mixtral, width=4)
    _, again = of(run(command, generate(1), generate(2)), m.Finished)
    (alone,) = of(run(command, generate(2)), m.Finished)
    assert again.usage.cached > 0 and again.token_ids == alone.token_ids


REFUSED: dict[str, tuple[Family, dict[str, Any], int, str]] = {
    "more than there are": ("mixtral", {"quant": "Q4_1"}, 5, "experts have 4 planes"),
    "more than any block has": (
        "qwen3moe",
        {"quant": "Q4_0", "types": {"*down_exps*": "Q5_1"}},
        6,
        "experts have 4 or 5 planes",
    ),
    "more than can be": ("mixtral", {}, 9, "experts have 8 planes"),
    "fewer than none": ("mixtral", {}, -1, "--width -1"),
    "no experts": ("llama", {}, 4, "this model has none"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_width_that_cannot_be_had_is_a_usage_error(tmp_path: Path, case: str) -> None:
    family, options, width, words = REFUSED[case]
    path = write_tiny(tmp_path / "m.gguf", family, **options)
    (failed,) = of(run(load(path, width=width)), m.Failed)
    assert failed.exit_code == 2 and words in failed.message and failed.hint
    assert list(tmp_path.iterdir()) == [path], "no pack was made for it"
