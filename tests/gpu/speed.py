"""Speed of the kernels that read weights and keys, as a share of a copy's."""

import torch

from ebbtide.kernels.ops import KvLayout
from ebbtide.kernels.sealed import scale_bytes
from ebbtide.kernels.triton.arrange import arrange, arranged_shape
from ebbtide.kernels.triton.attention import attention, attention_floats
from ebbtide.kernels.triton.combine import combine
from ebbtide.kernels.triton.kv_tables import KvTable
from ebbtide.kernels.triton.linear import linear
from ebbtide.kernels.triton.moe import moe
from ebbtide.kernels.triton.planes import MIXED
from ebbtide.kernels.triton.tables import DeviceTable
from tests.gpu.banks import Bank, blocks_for, bytes_at
from tests.gpu.ground import Ground
from tests.gpu.shapes import MODELS, ModelShape, tiny
from tests.gpu.timing import Call, cache_bytes, copy_rate, graphed, seconds

GOAL_SHARE = 70.0
GOAL_WIDTHS = range(4, 9)
FORM = "Q8_0"
MOST_CALLS = 64
"""In one graph."""


class Rates:
    """Tells rates as shares of the copy rate, eagerly and as a graph."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.copy = ground, 0.0 if ground.warms else copy_rate(ground)
        if not ground.warms:
            ground.row("copy within the card", self.copy / 1e9, "GB/s", note="read and written")

    def tell(self, case: str, call: Call, nbytes: float, *, has_goal: bool = False) -> None:
        """`call` reads `nbytes`; the goal is the graph's."""
        if self.ground.warms:
            call()
            self.ground.wait()
            return
        for how, run in (("graph", graphed(self.ground, call)), ("eager", call)):
            rate = nbytes / seconds(self.ground, run)
            share = 100 * rate / self.copy
            is_goal = has_goal and how == "graph" and not self.ground.dry
            self.ground.row(
                f"{case}, {how}",
                share,
                "% of copy",
                goal=f">= {GOAL_SHARE:.0f}" if is_goal else "",
                passed=share >= GOAL_SHARE if is_goal else None,
                note=f"{rate / 1e9:.1f} GB/s",
            )


def models(ground: Ground) -> list[ModelShape]:
    """Largest first: what is left out for want of time matters least. One in a dry run."""
    return [tiny(MODELS[-1])] if ground.dry else list(reversed(MODELS))


def widths(ground: Ground) -> tuple[int, ...]:
    """Full width first."""
    return (3,) if ground.dry else (8, 4, 6, 5, 7, 3, 2, 1)


def promise(width: int) -> int:
    """What the engine knows of widths: that they are full, or nothing."""
    return 8 if width == 8 else int(MIXED.value)


# --- products with dense matrices


def check_gemv_speed(ground: Ground) -> None:
    """One row times the matrices of each model; widths 1 to 8 of the largest, up to 8 rows of one."""
    rates = Rates(ground)
    for model in models(ground):
        with ground.case(model.name):
            _gemv(rates, model)


def _gemv(rates: Rates, model: ModelShape) -> None:
    ground, d_model = rates.ground, model.d_model
    across = (model.heads + 2 * model.kv_heads) * model.head_dim
    head = _bank(ground, model, model.vocab, d_model)
    for width in widths(ground):
        _linear(rates, f"{model.name} scores, width {width}", head, width, 1, has_goal=width in GOAL_WIDTHS)
    for rows in (2,) if ground.dry else (2, 4, 8):
        _linear(rates, f"{model.name} scores, {rows} rows", head, 8, rows)
    del head
    _linear(rates, f"{model.name} q|k|v", _bank(ground, model, across, d_model), 8, 1)
    _linear(rates, f"{model.name} output", _bank(ground, model, d_model, model.heads * model.head_dim), 8, 1)


def _bank(ground: Ground, model: ModelShape, rows: int, cols: int) -> Bank:
    layout = model.dense(rows, cols, FORM)
    return Bank(ground, layout, blocks_for(ground, layout))


def _linear(rates: Rates, case: str, bank: Bank, width: int, rows: int, *, has_goal: bool = False) -> None:
    ground, table = rates.ground, bank.at_width(width)
    layout = table.layout
    blocks = min(len(table.widths), 1 if ground.dry else MOST_CALLS)
    each = [bank.alone(index) for index in range(blocks)]
    arranged = _arranged(ground, rows, layout.cols)
    out = torch.empty((rows, layout.rows), device=ground.device)
    fault = torch.zeros(1, dtype=torch.int32, device=ground.device)

    def call() -> None:
        for one in each:
            linear(arranged, one, out, fault, width=promise(width))

    rates.tell(case, call, blocks * bytes_at(layout, width), has_goal=has_goal)
    _check(out, fault)


def _arranged(ground: Ground, rows: int, cols: int) -> torch.Tensor:
    found = torch.empty(arranged_shape(rows, cols), device=ground.device)
    arrange(torch.randn((rows, cols), device=ground.device), found)
    return found


def _check(out: torch.Tensor, fault: torch.Tensor) -> None:
    """What was timed was work: no block was absent, and no number is none."""
    if fault.item() or not bool(torch.isfinite(out).all()):
        raise RuntimeError(f"{int(fault.item())} faults, or results that are not finite")


# --- experts


def check_expert_speed(ground: Ground) -> None:
    """The experts of one token, others at every call."""
    rates = Rates(ground)
    for model in models(ground):
        with ground.case(model.name):
            _experts(rates, model, "Q8_0", widths(ground))
            if not ground.dry and model.d_model % 256 == 0 and model.expert_d_ff % 256 == 0:
                _experts(rates, model, "Q4_K", (4,))


def _experts(rates: Rates, model: ModelShape, form: str, chosen_widths: tuple[int, ...]) -> None:
    ground, (gate_up, down) = rates.ground, model.expert(form)
    blocks = blocks_for(ground, gate_up, down, least=model.experts)
    banks = Bank(ground, gate_up, blocks), Bank(ground, down, blocks)
    calls = 1 if ground.dry else min(MOST_CALLS, max(8, blocks // model.top_k))
    generator = torch.Generator().manual_seed(ground.seed)
    order = torch.cat(
        [torch.randperm(blocks, generator=generator) for _ in range(calls * model.top_k // blocks + 1)]
    )
    order = order[: calls * model.top_k].reshape(calls, 1, model.top_k).to(torch.int32).to(ground.device)
    chosen = torch.ones(blocks, dtype=torch.uint8, device=ground.device)
    arranged = _arranged(ground, 1, model.d_model)
    hidden = torch.empty(arranged_shape(model.top_k, model.expert_d_ff), device=ground.device)
    out = torch.empty((1, model.top_k, model.d_model), device=ground.device)
    fault = torch.zeros(1, dtype=torch.int32, device=ground.device)
    for width in chosen_widths:
        first, second = (bank.at_width(width) for bank in banks)
        known = 8 if width == gate_up.planes else promise(width)

        def call(first: DeviceTable = first, second: DeviceTable = second, known: int = known) -> None:
            for idx in order:
                moe(arranged, idx, chosen, first, second, hidden, out, fault, "silu", width=known)

        nbytes = calls * model.top_k * sum(bytes_at(layout, width) for layout in (gate_up, down))
        rates.tell(f"{model.name} {form} experts, width {width}", call, nbytes, has_goal=width in GOAL_WIDTHS)
        _check(out, fault)


# --- attention


def check_attention_speed(ground: Ground) -> None:
    """One token's attention to many positions, another layer's at every call."""
    rates = Rates(ground)
    for model in models(ground):
        for context in (40,) if ground.dry else (4096, 32768):
            for is_fp8 in (False, True):
                with ground.case(f"{model.name} attention at {context}"):
                    _attention(rates, model, context, is_fp8)
    if not ground.warms:
        with ground.case("launches"):
            _launches(ground)


def compile_gemv(ground: Ground) -> None:
    """What `check_gemv_speed` will launch."""
    ground.warms = True
    check_gemv_speed(ground)


def compile_experts(ground: Ground) -> None:
    """What `check_expert_speed` will launch."""
    ground.warms = True
    check_expert_speed(ground)


def compile_attention(ground: Ground) -> None:
    """What `check_attention_speed` will launch."""
    ground.warms = True
    check_attention_speed(ground)


def _attention(rates: Rates, model: ModelShape, context: int, is_fp8: bool) -> None:
    ground = rates.ground
    kv = KvLayout(model.kv_heads, model.head_dim, 24)
    runs = -(-context // kv.tokens)
    page_bytes = model.kv_bytes * kv.tokens
    layers = max(2, min(model.layers, 4 * cache_bytes(ground) // (runs * page_bytes) + 1))
    pages = _KvPages(ground, kv, layers, runs, page_bytes, is_fp8)
    q = torch.randn((1, model.heads, model.head_dim), device=ground.device)
    positions = torch.tensor([context - 1], dtype=torch.int32, device=ground.device)
    floats = attention_floats(1, model.heads, runs * kv.tokens, may_seal=is_fp8)
    work = torch.empty(floats, device=ground.device)
    out = torch.empty((1, model.heads * model.head_dim), device=ground.device)
    fault = torch.zeros(1, dtype=torch.int32, device=ground.device)

    def call() -> None:
        for table in pages.tables:
            scale = model.head_dim**-0.5
            attention(q, positions, table, kv, scale, work, out, fault, context=runs * kv.tokens)

    name = f"{model.name} attention at {context}, {'FP8' if is_fp8 else 'BF16'}"
    rates.tell(name, call, layers * context * model.kv_bytes / (2 if is_fp8 else 1))
    _check(out, fault)


class _KvPages:
    """Pages of random numbers below 2, in one format, anywhere in one piece of memory."""

    def __init__(
        self, ground: Ground, kv: KvLayout, layers: int, runs: int, page_bytes: int, is_fp8: bool
    ) -> None:
        count = -(-runs // 2) if is_fp8 else runs
        size = (layers * count, page_bytes)
        self._memory = torch.empty(size, dtype=torch.uint8, device=ground.device).random_()
        self._memory[:, 0 if is_fp8 else 1 :: 1 if is_fp8 else 2] &= 0xBF
        self._scales = torch.full(
            (layers * count, scale_bytes(kv)), 127, dtype=torch.uint8, device=ground.device
        )
        places = torch.randperm(layers * count, device=ground.device).reshape(layers, count)
        pages, beside = (
            places * step + piece.data_ptr()
            for piece, step in ((self._memory, page_bytes), (self._scales, scale_bytes(kv)))
        )
        if not is_fp8:
            self.tables = [KvTable(row) for row in pages]
            return
        # Both runs of a page name it; an odd address says that it is FP8.
        rows = [each.repeat_interleave(2, dim=1)[:, :runs].contiguous() for each in (pages + 1, beside)]
        self.tables = [KvTable(row, scales) for row, scales in zip(*rows, strict=True)]


def _launches(ground: Ground) -> None:
    """What a kernel costs that does next to nothing."""
    count = 2 if ground.dry else 200
    pair, weights, out = (torch.zeros(shape, device=ground.device) for shape in ((1, 1, 16), (1, 1), (1, 16)))

    def call() -> None:
        for _ in range(count):
            combine(pair, weights, out)

    for how, run in (("graph", graphed(ground, call)), ("eager", call)):
        ground.row(f"one launch, {how}", 1e6 * seconds(ground, run) / count, "us")
