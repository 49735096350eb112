"""The kernels over rows on a card, against float64: norms, rotation, router, gates, sums; and the scatter."""

import numpy as np
import torch

from ebbtide.kernels.ops import Activation
from ebbtide.kernels.reference import moe as moe_reference
from ebbtide.kernels.reference import norm as norm_reference
from ebbtide.kernels.reference import rope as rope_reference
from ebbtide.kernels.triton.combine import combine
from ebbtide.kernels.triton.glu import glu, row_gate
from ebbtide.kernels.triton.rmsnorm import rmsnorm, rmsnorm_heads
from ebbtide.kernels.triton.rope import rope
from ebbtide.kernels.triton.router import router
from ebbtide.kernels.triton.scatter import scatter
from tests.gpu.ground import Ground
from tests.gpu.judge import Judge
from tests.helpers.kernel_bounds import glu_bound, rmsnorm_bound, rope_bound, row_gate_bound, score_slack
from tests.helpers.plane_blocks import UNIT

EPS = 1e-6
ROWS = 8


class Vectors:
    """Random rows, the same on the host and on the card."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.device = ground, ground.device
        self.rng = np.random.default_rng(ground.seed)
        self.rows, self.cols = (3, 40) if ground.dry else (ROWS, 2048)

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.from_numpy(self.rng.standard_normal(shape).astype(np.float32))

    def nan(self, *shape: int) -> torch.Tensor:
        return torch.full(shape, torch.nan, device=self.device)

    def parts(self) -> list[slice]:
        """Rows in the company of others than in the whole."""
        counts = (1,) if self.ground.dry else range(1, self.rows)
        return [slice(self.rows - count, self.rows) for count in counts]


def check_vectors(ground: Ground) -> None:
    """Everything that has rows and no planes."""
    at = Vectors(ground)
    for name, check in (
        ("rmsnorm", _rmsnorm),
        ("rmsnorm of heads", _rmsnorm_heads),
        ("rope", _rope),
        ("router", _router),
        ("glu", _glu),
        ("row gate", _row_gate),
        ("combine", _combine),
        ("scatter", _scatter),
    ):
        with Judge(ground, name) as judge:
            check(at, judge)


def _rmsnorm(at: Vectors, judge: Judge) -> None:
    x, weight = at.normal(at.rows, at.cols), at.normal(at.cols)
    exact = np.empty(x.shape, np.float32)
    norm_reference.rmsnorm(x.numpy(), weight.numpy(), EPS, exact)
    there, out = x.to(at.device), at.nan(*x.shape)
    rmsnorm(there, weight.to(at.device), EPS, out)
    wanted = torch.from_numpy(exact)
    judge.near("rows", out, wanted, rmsnorm_bound(wanted))
    for part in at.parts():
        alone = at.nan(part.stop - part.start, at.cols)
        rmsnorm(there[part], weight.to(at.device), EPS, alone)
        judge.same(str(part), alone, out[part])


def _rmsnorm_heads(at: Vectors, judge: Judge) -> None:
    heads, dim = (2, 16) if at.ground.dry else (32, 128)
    x, weight = at.normal(at.rows, heads, dim), at.normal(dim)
    exact = np.empty((at.rows * heads, dim), np.float32)
    norm_reference.rmsnorm(x.reshape(-1, dim).numpy(), weight.numpy(), EPS, exact)
    memory = at.nan(at.rows, heads + 1, dim)
    memory[:, :heads] = x.to(at.device)
    rmsnorm_heads(memory[:, :heads], weight.to(at.device), EPS, memory[:, :heads])
    wanted = torch.from_numpy(exact).reshape(x.shape)
    judge.near("heads", memory[:, :heads], wanted, rmsnorm_bound(wanted))
    judge.true("wrote around the heads", bool(memory[:, heads].isnan().all()))


def _rope(at: Vectors, judge: Judge) -> None:
    heads, dim = (2, 16) if at.ground.dry else (32, 128)
    x, places = at.normal(at.rows, heads, dim), 5000
    angle = np.arange(places)[:, None] * 1e6 ** (-np.arange(dim // 2) / (dim // 2))
    cos, sin = (torch.from_numpy(f(angle).astype(np.float32)) for f in (np.cos, np.sin))
    positions = torch.from_numpy(at.rng.integers(0, places, at.rows).astype(np.int32))
    tables = cos.to(at.device), sin.to(at.device)
    fault = torch.zeros(1, dtype=torch.int32, device=at.device)
    for interleaved in (False, True):
        exact = x.numpy().copy()
        rope_reference.rope(exact, cos.numpy(), sin.numpy(), positions.numpy(), interleaved)
        out = x.clone().to(at.device)
        rope(out, *tables, positions.to(at.device), interleaved, fault)
        judge.near(f"interleaved {interleaved}", out, torch.from_numpy(exact), rope_bound(x))
        for part in at.parts():
            alone = x[part].clone().to(at.device)
            rope(alone, *tables, positions[part].to(at.device), interleaved, fault)
            judge.same(str(part), alone, out[part])
    judge.true("a fault", fault.item() == 0)


def _router(at: Vectors, judge: Judge) -> None:
    for experts, top_k in [(7, 2)] if at.ground.dry else [(8, 2), (64, 8), (128, 8)]:
        x, w = at.normal(at.rows, at.cols), at.normal(experts, at.cols) / at.cols**0.5
        there = x.to(at.device), w.to(at.device)
        idx, weights = _routed(at, *there, top_k)
        exact, slack = torch.softmax(x.double() @ w.double().T, dim=-1), score_slack(x, w)
        chosen = exact.gather(1, idx.cpu().long().clamp(0, experts - 1))
        right = chosen / chosen.sum(dim=1, keepdim=True)
        judge.near(f"{experts} experts", weights, right, (2 * slack + 32 * UNIT) * right)
        best = exact.sort(dim=1, descending=True).values[:, :top_k]
        judge.true("not the largest", bool(((chosen - best).abs() <= 2 * slack * best).all()))
        for part in at.parts():
            alone = _routed(at, there[0][part], there[1], top_k)
            judge.same(f"experts of {part}", alone[0], idx[part])
            judge.same(f"weights of {part}", alone[1], weights[part])


def _routed(at: Vectors, x: torch.Tensor, w: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    idx = torch.full((len(x), top_k), -7, dtype=torch.int32, device=at.device)
    weights = at.nan(len(x), top_k)
    router(x, w, top_k, True, at.nan(len(x), len(w)), idx, weights)
    return idx, weights


def _glu(at: Vectors, judge: Judge) -> None:
    x = 4 * at.normal(at.rows, 2 * at.cols)
    kinds: tuple[Activation, ...] = ("silu", "gelu")
    for kind in kinds:
        exact = np.empty((at.rows, at.cols), np.float32)
        moe_reference.glu(x.numpy(), exact, kind)
        out, wanted = at.nan(at.rows, at.cols), torch.from_numpy(exact)
        glu(x.to(at.device), out, kind)
        judge.near(kind, out, wanted, glu_bound(wanted, x))


def _row_gate(at: Vectors, judge: Judge) -> None:
    x, weight = at.normal(at.rows, at.cols), at.normal(at.cols)
    there, out = (x.to(at.device), weight.to(at.device)), at.nan(at.rows)
    row_gate(*there, out)
    judge.near("gate", out, torch.sigmoid(x.double() @ weight.double()), row_gate_bound(x, weight))
    for part in at.parts():
        alone = at.nan(part.stop - part.start)
        row_gate(there[0][part], there[1], alone)
        judge.same(str(part), alone, out[part])


def _combine(at: Vectors, judge: Judge) -> None:
    values, weights, before = (
        at.normal(at.rows, 8, at.cols),
        at.normal(at.rows, 8).abs(),
        at.normal(at.rows, at.cols),
    )
    exact = before.numpy().copy()
    moe_reference.combine(values.numpy(), weights.numpy(), exact)
    out = before.to(at.device)
    combine(values.to(at.device), weights.to(at.device), out)
    judge.same("bits", out, torch.from_numpy(exact))


def _scatter(at: Vectors, judge: Judge) -> None:
    for pages, page_bytes in [(2, 4096)] if at.ground.dry else [(33, 48 << 10), (7, 4096), (300, 64 << 10)]:
        data = torch.from_numpy(at.rng.integers(0, 256, (pages, page_bytes), np.uint8))
        memory = torch.full((2 * pages, page_bytes), 0xEE, dtype=torch.uint8, device=at.device)
        places = torch.from_numpy(at.rng.permutation(2 * pages)[:pages])
        targets = memory.data_ptr() + places * page_bytes
        staged = torch.cat([data.flatten(), targets.view(torch.uint8)]).to(at.device)
        scatter(staged.data_ptr(), pages, page_bytes, at.device)
        at.ground.wait()
        wanted = torch.full_like(memory, 0xEE, device="cpu")
        wanted[places] = data
        judge.same(f"{pages} pages of {page_bytes}", memory, wanted)
