"""The recipe's own parts: gradients, int8 factors, schedule, rows and the chat questions."""

from pathlib import Path

import numpy as np
import pytest
import torch
from chat_questions import questions
from head_loss import head_loss
from int8_factors import int8_factors
from moe_ffn import Frozen, MoeFfn
from rows import SHARES, RowSource
from schedule import Schedule
from torch import Tensor

from ebbtide.engine.starter.delta import Factors


def test_gradients_of_the_expert_layer_are_those_of_finite_differences() -> None:
    generator = torch.Generator().manual_seed(1)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    width, ffn, rank, experts, tokens = 5, 7, 2, 4, 6
    frozen = Frozen(random(ffn, width), random(ffn, width), random(width, ffn))
    into, out_of = (rank, width), (ffn, rank)  # gate and up; down has the sizes the other way round
    sizes = (into, out_of, into, out_of, (rank, ffn), (width, rank))
    factors = [random(experts, *size).requires_grad_() for size in sizes]
    # The last expert is never chosen: its gradient is zero, not undefined.
    chosen = torch.stack([torch.randperm(experts - 1, generator=generator)[:2] for _ in range(tokens)])
    x, weights = random(tokens, width).requires_grad_(), random(tokens, 2).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, weights, *deltas: MoeFfn.apply(x, weights, chosen, frozen, *deltas),  # type: ignore[no-untyped-call]
        (x, weights, *factors),
    )


@pytest.mark.parametrize("rows", [1, 300])  # one chunk with one row; two chunks, the second not full
def test_loss_and_gradient_of_the_head(rows: int) -> None:
    generator = torch.Generator().manual_seed(2)
    hidden = torch.randn(rows, 8, generator=generator, requires_grad=True)
    head, targets = torch.randn(20, 8, generator=generator), torch.arange(rows) % 20
    expected = torch.nn.functional.cross_entropy(hidden @ head.T, targets, reduction="sum")
    (wanted,) = torch.autograd.grad(expected, hidden)
    loss = head_loss(hidden, head, targets)
    (found,) = torch.autograd.grad(3 * loss, hidden)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, 3 * wanted)


def test_int8_factors_keep_the_product() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(0, 0.04, (3, 8, 64)).astype(np.float32)
    b = rng.normal(0, 0.01, (3, 96, 8)).astype(np.float32)
    a[0, 2], b[1, 5] = 0, 0  # a rank without effect and a row without change
    factors = Factors(*int8_factors(a, b))
    for expert in range(3):
        exact = b[expert] @ a[expert]
        found = factors.applied(expert, np.zeros((96, 64), np.float32))
        assert np.linalg.norm(found - exact) < 0.015 * np.linalg.norm(exact)
    assert not factors.applied(1, np.zeros((96, 64), np.float32))[5].any()


def test_schedule_warms_up_stays_and_ends_at_tokens_or_deadline() -> None:
    schedule = Schedule(
        peak=2.0, warmup_steps=10, tokens=1000, decay_share=0.25, deadline=500.0, decay_s=100.0
    )
    assert schedule.rate(step=0, tokens=0, now=0.0) == pytest.approx(0.2)
    assert schedule.rate(step=50, tokens=500, now=0.0) == 2.0
    assert schedule.rate(step=50, tokens=875, now=0.0) == pytest.approx(1.0)
    assert schedule.rate(step=50, tokens=500, now=475.0) == pytest.approx(0.5)
    assert schedule.rate(step=50, tokens=500, now=501.0) == schedule.rate(50, 1000, 0.0) == 0


def test_rows_keep_their_shares_repeat_late_and_resume(tmp_path: Path) -> None:
    arrays = {}
    for number, domain in enumerate(SHARES):
        arrays[f"{domain}.train.rows"] = np.arange(40 * 513, dtype=np.int32).reshape(40, 513) + 10**6 * number
        arrays[f"{domain}.train.scored"] = np.ones((40, 512), np.int32)
    np.savez(tmp_path / "corpus.npz", **arrays)  # type: ignore[arg-type]
    drawn = [row for step in range(25) for row in RowSource(tmp_path / "corpus.npz", 1).step_rows(step, 4)]
    assert len({int(row.tokens[0]) for row in drawn}) == len(drawn)
    for domain, share in SHARES.items():
        assert sum(row.domain == domain for row in drawn) == pytest.approx(100 * share, abs=2)


def test_questions_are_seeded_and_different() -> None:
    asked = questions(200, seed=5)
    assert asked == questions(200, seed=5) != questions(200, seed=6)
    assert len(set(asked)) == 200
