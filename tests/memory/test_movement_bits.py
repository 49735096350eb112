"""The same sequence of committed widths gives the same bits, however the pages got there."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.runtime import Runtime
from tests.helpers.in_process import TEXT, load
from tests.helpers.tiny_models import write_tiny

U8 = NDArray[np.uint8]
F32 = NDArray[np.float32]
LAYERS, EXPERTS = 3, 8
TOKENS = 14
STEPS = (3, 6, 9)
"""Tokens before which another vector is committed; the last of them is all planes again."""
Move = Callable[[Pager, int, list[U8]], None]
"""(pager, position of the next token, vectors of `STEPS`): called at every safe point."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gate and up have 8 planes, down has 5."""
    return write_tiny(
        tmp_path_factory.mktemp("models") / "m.gguf",
        "qwen3moe",
        types={"*down_exps*": "Q5_0"},
        layers=LAYERS,
        experts=EXPERTS,
        d_model=128,
        expert_d_ff=128,
    )


def vectors(pager: Pager) -> list[U8]:
    """Two random vectors, then all planes; any block may go down or up from one to the next."""
    most = np.broadcast_to(pager._table.most, (LAYERS, 2, EXPERTS))
    chooser = np.random.default_rng(5)
    some = [np.minimum(chooser.integers(1, 9, most.shape), most).astype(np.uint8) for _ in STEPS[1:]]
    return [*some, most.astype(np.uint8)]


def decode(model: Path, move: Move, budget: str = "100%", pack: str = "yes") -> list[F32]:
    """Logits of each token, with `move` at the safe points before it; memory is checked there too."""
    runtime = Runtime.load(load(model, budget=budget, pack=pack), lambda *_: None)
    pager = runtime.pager
    assert pager is not None
    found = []
    script, sequence = vectors(pager), runtime.pool.new_sequence()
    ids = runtime.tokenizer.encode(TEXT, add_bos=False, parse_special=False)[:TOKENS]
    for position, token in enumerate(ids):
        move(pager, position, script)
        runtime.check_ledger()
        runtime.fast.check_integrity()
        provenance = runtime.fast.provenance(Lane.DECODE)
        assert provenance.exact == runtime.fast.is_exact and provenance.width_epoch == pager._table.epoch
        runtime.pool.extend(sequence, 1, provenance)
        rows = runtime.forward.hidden(
            np.array([token], np.int32), position, runtime.kv_view(sequence), lambda: False
        )
        runtime.forward.logits(rows, runtime.logits[:1])
        found.append(runtime.logits[0].copy())
    runtime.close()
    return found


def never(pager: Pager, position: int, script: list[U8]) -> None:
    """Nothing changes."""


def whole(pager: Pager, position: int, script: list[U8]) -> None:
    """In one transaction."""
    if position in STEPS:
        pager.begin_widths(script[STEPS.index(position)]).finish()


def lowered_first(pager: Pager, position: int, script: list[U8]) -> None:
    if position in STEPS:
        pager.set_widths(script[STEPS.index(position)]).finish()


def all_resident(pager: Pager, position: int, script: list[U8]) -> None:
    """Raised by reading, for all experts are here."""
    pager.warm()
    lowered_first(pager, position, script)


def kept(pager: Pager, position: int, script: list[U8]) -> None:
    """Where all experts are here, no page moves."""
    pager.warm()
    if position in STEPS:
        change = pager.set_widths(script[STEPS.index(position)], keep=True)
        assert not change.is_open or pager.resident_count < LAYERS * EXPERTS
        change.finish()


def read_anew(pager: Pager, position: int, script: list[U8]) -> None:
    """Every expert is absent when widths change."""
    if position in STEPS:
        for layer in range(LAYERS):
            for expert in pager._table.resident_experts(layer):
                pager.evict(layer, expert)
        assert not pager.set_widths(script[STEPS.index(position)]).is_open


def read_meanwhile(pager: Pager, position: int, script: list[U8]) -> None:
    """Reads begin two tokens before the commit, and tokens go on."""
    if position + 2 in STEPS:
        change = pager.begin_widths(script[STEPS.index(position + 2)])
        if change.pages_to_read:
            assert pager.advance() is None
    elif position in STEPS and pager.change is not None:
        pager.change.finish()


def with_detours(pager: Pager, position: int, script: list[U8]) -> None:
    """Changes that are given up before and after every commit."""
    pager.warm()
    lowered_first(pager, position, script)
    for _ in range(2):
        detour = pager.begin_widths(script[-1] if position % 2 else np.ones_like(script[-1]))
        if detour.pages_to_read:
            detour.step()
        detour.cancel()


@pytest.mark.parametrize("budget", ["100%", "40%", "0%"])
@pytest.mark.parametrize(
    "move", [lowered_first, all_resident, kept, read_anew, read_meanwhile, with_detours, whole]
)
def test_the_same_committed_vectors_give_the_same_bits(model: Path, move: Move, budget: str) -> None:
    expected = decode(model, whole)
    assert all(np.array_equal(a, b) for a, b in zip(expected, decode(model, move, budget), strict=True))


def test_planes_that_are_converted_from_the_model_file_are_the_same(model: Path) -> None:
    plain = decode(model, all_resident, pack="plain")
    assert all(np.array_equal(a, b) for a, b in zip(decode(model, whole), plain, strict=True))


def test_other_vectors_give_other_bits(model: Path) -> None:
    """Else the test above would see nothing."""
    changed, plain = decode(model, whole), decode(model, never)
    same = [np.array_equal(a, b) for a, b in zip(changed, plain, strict=True)]
    assert all(same[: STEPS[0]]) and not any(same[STEPS[0] :])


@pytest.mark.parametrize("budget", ["100%", "30%"])
def test_exact_tokens_are_the_same_with_and_without_movement(model: Path, budget: str) -> None:
    """Down and up again between every two tokens."""

    def down_and_up(pager: Pager, position: int, script: list[U8]) -> None:
        assert pager._table.is_exact
        pager.set_widths(script[position % 2])
        assert not pager._table.is_exact
        pager.set_widths(script[-1]).finish()

    moved = decode(model, down_and_up, budget)
    assert all(np.array_equal(a, b) for a, b in zip(moved, decode(model, never), strict=True))
