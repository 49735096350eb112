"""The arm dp of a loaded model, and arms at a budget in place of a number of planes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine import messages as m
from ebbtide.engine.precision import dp_choosing
from ebbtide.engine.precision.arm_choice import bits_in, bytes_in, choose_arm
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.runtime import Runtime
from ebbtide.engine.scoring import score
from tests.helpers.in_process import TEXT, of, run
from tests.helpers.in_process import load as load_in

LONG = TEXT * 2
BITS = 4.4


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds from few tokens."""
    monkeypatch.setattr(dp_choosing, "FIT_TOKENS", 200)


def load(path: Path, **fields: Any) -> m.Load:
    """With room for all planes and two texts."""
    return load_in(path, **{"budget": "32MiB", **fields})


def scored(path: Path, *commands: m.Command, **fields: Any) -> tuple[m.ArmWidths, list[m.Scored]]:
    events = run(load(path, **fields), *commands)
    assert not of(events, m.Failed)
    (at,) = of(events, m.ArmWidths)
    return at, of(events, m.Scored)


def follow(text: str) -> m.Score:
    return m.Score(2, text, against_full=True, follow=True)


@pytest.mark.parametrize("name", ["mixtral", "uneven"])
def test_what_is_read_and_what_is_held(name: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(name)
    at, (found,) = scored(path, m.Arm(1, "dp", BITS), follow(LONG))
    _, (plain,) = scored(path, m.Arm(1, "uniform", BITS), m.Score(2, LONG))
    costs = costs_of(path)
    held = np.frombuffer(at.widths, np.uint8).reshape(costs.shape)
    assert at.follows and at.average_bits == pytest.approx(BITS, abs=0.07)
    assert at.expert_bytes == costs.expert_bytes(held) > costs.target_bytes(BITS)
    assert found.read_bits == pytest.approx(BITS, abs=0.5) and found.read_bits < costs.average_bits(held)
    assert found.full_logprobs == plain.logprobs != found.logprobs
    assert any("explains" in notice for notice in at.notices)


def test_the_same_tokens_get_the_same_bits(mixtral: Path) -> None:
    """Again, with other threads, and as the beginning of another text."""
    _, (whole, part, again) = scored(
        mixtral, m.Arm(1, "dp", BITS), follow(LONG), follow(LONG[:300]), follow(LONG)
    )
    assert whole.logprobs == again.logprobs and whole.read_bits == again.read_bits
    # The last token or two of a part may be others in the whole text.
    count = len(part.logprobs) - 2
    assert count > 64 and part.logprobs[:count] == whole.logprobs[:count]
    _, (alone,) = scored(mixtral, m.Arm(1, "dp", BITS), follow(LONG), threads=1)
    assert alone.logprobs == whole.logprobs


def test_widths_change_between_steps_as_a_whole(mixtral: Path) -> None:
    """All rows of a step are computed at the widths that were committed before it, and none are left."""
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    choose_arm(runtime, m.Arm(1, "dp", BITS), lambda *_: None, lambda: False)
    table, arm, seen = runtime.fast.table, runtime.paged_arm, []
    assert table is not None and arm is not None and table.is_exact
    observer = arm.observer
    assert observer is not None
    routed = observer.routed

    def look(layer: int, at: Any) -> None:
        seen.append((len(at.rows.x), layer, table.committed.tobytes(), arm.widths.tobytes()))
        routed(layer, at)

    observer.routed = look  # type: ignore[method-assign]
    score(runtime, follow(TEXT), lambda: False)
    assert len(seen) > 3 * 64 and all(
        rows == 1 and committed == wished for rows, _, committed, wished in seen
    )
    steps = [seen[at : at + 3] for at in range(0, len(seen), 3)]
    assert all(len({committed for _, _, committed, _ in step}) == 1 for step in steps)
    assert len({step[0][2] for step in steps}) > 1
    assert table.is_exact and runtime.memory().kv_bytes == 0
    runtime.fast.check_integrity()
    runtime.close()


def test_the_fit_can_be_cancelled(mixtral: Path) -> None:
    events = run(load(mixtral), m.Arm(1, "dp", BITS), cancel_after=51)
    (failed,) = of(events, m.Failed)
    assert failed.exit_code == 130 and not of(events, m.ArmWidths)


def test_without_the_librarys_text_it_says_so(mixtral: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_choosing, "library_texts", lambda held_out: ([], []))
    (failed,) = of(run(load(mixtral), m.Arm(1, "dp", BITS)), m.Failed)
    assert failed.exit_code == 2 and "standard library" in failed.message and failed.hint


def costs_of(path: Path) -> Costs:
    runtime = Runtime.load(load(path), lambda *_: None)
    table = runtime.fast.table
    assert table is not None
    costs = Costs.of(table.layouts, table.experts)
    runtime.close()
    return costs


@pytest.mark.parametrize("name", ["mixtral", "uneven"])
@pytest.mark.parametrize("arm", ["uniform", "static", "paged"])
def test_an_arm_at_a_share_of_the_experts(name: Any, arm: Any, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(name)
    at, _ = scored(path, m.Arm(1, arm, budget="60%"))
    one_plane = int(np.diff(costs_of(path).block_bytes()[:, :, 1:], axis=2).max())
    assert 0.6 * at.full_bytes - one_plane - 1 <= at.expert_bytes <= 0.6 * at.full_bytes


def test_an_arm_at_a_size_of_all_memory(mixtral: Path) -> None:
    runtime = Runtime.load(load(mixtral), lambda *_: None)
    table, base = runtime.fast.table, runtime.plan.base_bytes
    assert table is not None
    costs = Costs.of(table.layouts, table.experts)
    half = (costs.target_bytes(1) + costs.expert_bytes(costs.full())) // 2
    found = choose_arm(runtime, m.Arm(1, "uniform", budget=f"{base + half}"), lambda *_: None, lambda: False)
    assert half * 0.99 < found.expert_bytes <= half
    assert bytes_in(f"{base + 10**9}", runtime.plan, costs) == costs.expert_bytes(costs.full())
    for bits in (1.0, 3.3, 8.0):
        assert bits_in(costs.target_bytes(bits), costs) == pytest.approx(bits, abs=1e-4)
    runtime.close()


def test_what_dp_holds_may_be_more_than_a_budget(mixtral: Path) -> None:
    at, _ = scored(mixtral, m.Arm(1, "dp", budget="60%"))
    assert at.expert_bytes > 0.6 * at.full_bytes
    assert any("would not run in this budget" in notice for notice in at.notices)


@pytest.mark.parametrize(
    ("budget", "code", "words"),
    [
        ("1MiB", 4, "no room for one plane of every expert"),
        ("2%", 4, "no room for one plane of every expert"),
        ("auto", 2, "--budget auto is no size"),
        ("much", 2, "'much' is not a size"),
    ],
)
def test_budgets_that_say_nothing_to_an_arm(mixtral: Path, budget: str, code: int, words: str) -> None:
    (failed,) = of(run(load(mixtral), m.Arm(1, "uniform", budget=budget)), m.Failed)
    assert failed.exit_code == code and words in failed.message and failed.hint
    if code == 4:
        enough = failed.hint.split("--budget ")[1].split()[0]
        assert scored(mixtral, m.Arm(1, "uniform", budget=enough))[0].average_bits >= 1
