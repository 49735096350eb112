"""Scores at widths that differ from block to block: right, compared with every plane, and without a trace."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ebbtide.engine import messages as m
from ebbtide.engine.against_full import PIECE_TOKENS, divergence
from ebbtide.engine.at_widths import committed_for_now, use_widths
from ebbtide.engine.log_probabilities import log_softmax
from ebbtide.engine.memory.provenance import Lane
from ebbtide.engine.model.forward import Cancelled
from ebbtide.engine.precision.choosing import choose
from ebbtide.engine.precision.paged_arm import EVERY_TOKENS
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import score, teacher_forced
from tests.helpers.attention_kernels import isas
from tests.helpers.in_process import TEXT, generate, of, run
from tests.helpers.in_process import load as load_in
from tests.helpers.tiny_models import EIGHT_EXPERTS, write_tiny

LONG = TEXT * 2
"""More than one piece, and a part of one."""


def load(path: Path, budget: str = "32MiB", **fields: Any) -> m.Load:
    """With room for all planes and two sequences."""
    return load_in(path, budget=budget, **fields)


def planes(path: Path) -> NDArray[np.uint8]:
    full = np.full((EIGHT_EXPERTS["layers"], 2, EIGHT_EXPERTS["experts"]), 8, np.uint8)
    full[:, 1] = 5 if path.name == "uneven.gguf" else 8
    return full


def mixed(path: Path, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).integers(2, planes(path), endpoint=True, dtype=np.uint8).tobytes()


def scored(path: Path, *commands: m.Score, **fields: Any) -> list[m.Scored]:
    events = run(load(path, **fields), *commands)
    assert not of(events, m.Failed)
    return of(events, m.Scored)


@pytest.mark.parametrize("width", [2, 5])
def test_one_width_is_what_a_load_at_this_width_gives(mixtral: Path, width: int) -> None:
    widths = bytes([width]) * planes(mixtral).size
    (here,) = scored(mixtral, m.Score(1, TEXT, widths=widths))
    (loaded,) = scored(mixtral, m.Score(1, TEXT), width=width)
    assert here.logprobs == loaded.logprobs and here.top1 == loaded.top1
    assert here.kl == here.full_top1 == here.full_logprobs == []


@pytest.mark.parametrize("isa", isas())
@pytest.mark.parametrize("name", ["mixtral", "uneven"])
def test_chunks_have_the_bits_of_single_tokens(name: str, isa: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(name)
    widths = mixed(path)
    prompt, tokens, compared = scored(
        path,
        m.Score(1, LONG, widths=widths, lane="prefill"),
        m.Score(2, LONG, widths=widths, lane="decode"),
        m.Score(3, LONG, widths=widths, against_full=True),
        isa=isa,
    )
    assert len(prompt.logprobs) > PIECE_TOKENS
    assert prompt.logprobs == tokens.logprobs == compared.logprobs
    assert prompt.top1 == tokens.top1 == compared.top1


def test_compared_with_every_plane(mixtral: Path) -> None:
    whole, arm, exact = scored(
        mixtral,
        m.Score(1, LONG),
        m.Score(2, LONG, widths=mixed(mixtral), against_full=True),
        m.Score(3, LONG, against_full=True),
    )
    assert arm.full_logprobs == whole.logprobs == exact.logprobs == exact.full_logprobs
    assert arm.token_ids == whole.token_ids
    assert arm.full_top1 == whole.top1 == exact.top1 == exact.full_top1 != arm.top1
    assert exact.kl == [0.0] * len(exact.kl)
    assert len(arm.kl) == len(arm.logprobs) and all(nats > 0 for nats in arm.kl)


def keep_in(rows: list[NDArray[np.float32]]) -> Callable[[int, NDArray[np.float32]], None]:
    return lambda _, some: rows.append(some.copy())


def test_divergence_is_that_of_the_logits(mixtral: Path) -> None:
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    table, widths = runtime.fast.table, mixed(mixtral)
    assert table is not None and runtime.pager is not None
    found = score(runtime, m.Score(1, TEXT, widths=widths, against_full=True), lambda: False)
    ids = runtime.tokenizer.encode(TEXT, add_bos=True, parse_special=False)
    logits: list[list[NDArray[np.float32]]] = [[], []]
    with committed_for_now(runtime):
        for rows, q in zip(logits, (planes(mixtral), np.frombuffer(widths, np.uint8)), strict=True):
            use_widths(runtime, q.reshape(table.committed.shape))
            teacher_forced(runtime, ids, Lane.DECODE, lambda: False, keep_in(rows))
    full, arm = (log_softmax(np.concatenate(rows)[:-1]) for rows in logits)
    expected = (np.exp(full) * (full - arm)).sum(axis=1)
    assert np.allclose(found.kl, expected, rtol=1e-9, atol=1e-12)
    runtime.close()


def test_divergence_by_hand() -> None:
    fair, loaded = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    nats = 0.5 * np.log(0.5 / 0.25) + 0.5 * np.log(0.5 / 0.75)
    assert divergence(fair, loaded.copy()) == pytest.approx([nats])
    assert divergence(fair, fair.copy()) == 0


def test_nothing_is_left_behind(mixtral: Path) -> None:
    """What was computed with fewer planes serves no exact answer, and all planes are committed again."""
    command = m.Score(5, TEXT, widths=mixed(mixtral), against_full=True)
    events = run(load(mixtral), generate(1), command, generate(2), generate(3))
    first, second, third = of(events, m.Finished)
    assert first.token_ids == second.token_ids == third.token_ids
    assert third.usage.cached > 0
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    table = runtime.fast.table
    assert table is not None
    exact: list[bool] = []
    extend = runtime.pool.extend

    def look(sequence: Any, count: int, provenance: Any) -> None:
        exact.append(provenance.exact)
        extend(sequence, count, provenance)

    runtime.pool.extend = look  # type: ignore[method-assign]
    score(runtime, command, lambda: False)
    assert exact == [True, False] * (len(exact) // 2) and exact
    assert (table.committed == planes(mixtral)).all() and runtime.fast.is_exact
    runtime.fast.check_integrity()
    assert runtime.memory().kv_bytes == 0
    runtime.close()


@pytest.mark.parametrize(("against_full", "layers_seen"), [(False, 1), (True, 1), (True, 4)])
def test_a_cancelled_one_leaves_nothing_either(mixtral: Path, against_full: bool, layers_seen: int) -> None:
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    table, calls = runtime.fast.table, iter(range(100))
    command = m.Score(1, LONG, widths=mixed(mixtral), against_full=against_full)
    with pytest.raises(Cancelled):
        score(runtime, command, lambda: next(calls) > layers_seen)
    assert table is not None and table.is_exact and runtime.memory().kv_bytes == 0
    runtime.fast.check_integrity()
    runtime.close()


def test_the_budget_that_is_told_is_enough(mixtral: Path) -> None:
    command = m.Score(1, LONG, widths=mixed(mixtral), against_full=True)
    (failed,) = of(run(load(mixtral, budget="60%"), command), m.Failed)
    assert failed.exit_code == 4 and "every plane in memory" in failed.message
    budget = failed.hint.split("EBBTIDE_BUDGET=")[1].split()[0]
    events = run(load(mixtral, budget=budget), command)
    (found,) = of(events, m.Scored)
    (plenty,) = scored(mixtral, command)
    assert found.logprobs == plenty.logprobs and found.kl == plenty.kl


def followed(path: Path, *texts: str, **fields: Any) -> tuple[m.ArmWidths, list[m.Scored]]:
    """By the arm paged, each text from its own beginning."""
    scores = [m.Score(2, text, against_full=True, follow=True) for text in texts]
    events = run(load(path, **fields), m.Arm(1, "paged", 3.5), *scores)
    assert not of(events, m.Failed)
    (at,) = of(events, m.ArmWidths)
    return at, of(events, m.Scored)


@pytest.mark.parametrize("name", ["mixtral", "uneven"])
def test_widths_follow_what_was_routed_before(name: str, request: pytest.FixtureRequest) -> None:
    """Until the first change all is as with the widths that it begins with; then it is not."""
    path: Path = request.getfixturevalue(name)
    at, (whole, part, again) = followed(path, LONG, LONG[:400], LONG)
    assert at.follows and whole.logprobs == again.logprobs and whole.kl == again.kl
    fixed, plain = scored(path, m.Score(1, LONG, widths=at.widths, against_full=True), m.Score(2, LONG))
    assert whole.full_logprobs == fixed.full_logprobs == plain.logprobs
    assert whole.logprobs[:EVERY_TOKENS] == fixed.logprobs[:EVERY_TOKENS]
    assert whole.logprobs[EVERY_TOKENS:] != fixed.logprobs[EVERY_TOKENS:]
    # The last token or two of a part may be others in the whole text.
    count = len(part.logprobs) - 2
    assert count > 2 * EVERY_TOKENS and part.logprobs[:count] == whole.logprobs[:count]


def test_following_gives_the_same_bits_with_any_threads(mixtral: Path) -> None:
    found = [followed(mixtral, LONG, threads=threads)[1] for threads in (1, 2)]
    assert found[0] == found[1]


def test_what_was_followed_leaves_no_trace(mixtral: Path) -> None:
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    choose(runtime, m.Arm(1, "paged", 3.5), lambda *_: None, lambda: False)
    table, arm, seen = runtime.fast.table, runtime.paged_arm, set()
    assert table is not None and arm is not None
    replan = arm.replan

    def look() -> None:
        seen.add(table.committed.tobytes())
        replan()

    arm.replan = look  # type: ignore[method-assign]
    score(runtime, m.Score(1, LONG, follow=True), lambda: False)
    assert len(seen) > 1 and table.is_exact and runtime.memory().kv_bytes == 0
    runtime.fast.check_integrity()
    runtime.close()


def test_nothing_is_followed_without_an_arm(mixtral: Path) -> None:
    for others in ((), (m.Arm(1, "paged", 5.0), m.Arm(2, "uniform", 5.0))):
        events = run(load(mixtral), *others, m.Score(3, TEXT, follow=True))
        (failed,) = of(events, m.Failed)
        assert failed.exit_code == 2 and "No arm" in failed.message and failed.hint


REFUSED: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "too few": ({}, b"\x08" * 47, "47 widths were given for 48 blocks"),
    "no planes": ({}, b"\x00" * 48, "width of 0 was given to a block of 8 planes"),
    "more than there are": ({}, b"\x09" * 48, "width of 9 was given to a block of 8"),
    "a model at a width": ({"width": 4}, b"\x04" * 48, "loaded with 4 of 8 planes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_widths_that_cannot_be_had_are_refused(mixtral: Path, case: str) -> None:
    fields, widths, words = REFUSED[case]
    for against_full in (False, True):
        command = m.Score(1, TEXT, widths=widths, against_full=against_full)
        (failed,) = of(run(load(mixtral, **fields), command), m.Failed)
        assert failed.exit_code == 2 and words in failed.message and failed.hint


def test_a_dense_model_has_no_widths(folder: Path) -> None:
    path = write_tiny(folder / "dense.gguf", "llama")
    for command in (m.Score(1, TEXT, widths=b"\x04"), m.Score(1, TEXT, against_full=True)):
        (failed,) = of(run(load(path), command), m.Failed)
        assert failed.exit_code == 2 and "no experts" in failed.message
