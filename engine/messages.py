"""Typed messages between the app and an engine process; imports no torch and no numpy.

One MessagePack frame per message, each with a 4-byte little-endian length in front. The app sends `Command`s,
the engine answers with `Event`s; events of one request carry its `request_id`.
"""

from typing import Literal

import msgspec

ArmName = Literal["fp16", "uniform", "static", "dp", "paged"]
Signal = Literal["", "sensitivity", "routing", "residual", "movement"]
"""What the arm `paged` goes by; "" = none of them."""
FinishReason = Literal["stop", "length", "cancelled", "context", "kv_integrity", "error"]


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is chosen. Temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    seed: int = 0


class Turn(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


# --- commands: app -> engine --------------------------------------------------------------------------------


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Open a model under a budget. Answered by `Progress`..., then `Loaded` or `Failed` (request_id 0)."""

    path: str
    budget: str = "auto"
    ctx: int = 0
    """0 = the model's own context, or less if the budget asks for it."""
    threads: int = 0
    isa: str = "auto"
    policy: str = "lfru"
    prefetch: bool = False
    """Whether a token's next experts are read on a guess."""
    quality: str = "exact"
    """`high`, `balanced` or `fast`: experts may have fewer planes while memory is short, so that more of them
    stay in it; with `fast` they may fall lowest.
    """
    kv: str = "bf16"
    pack: Literal["ask", "yes", "no", "plain"] = "ask"
    """Whether a pack is made where the budget needs one; `plain`: none is used, experts are paged from the
    model file and converted at every read.
    """
    retain_prefixes: bool = True
    device: str = "auto"
    """`auto`, `cpu` or `cuda:N`."""
    emulate: str = ""
    """A card as a smaller or slower one: `vram=8GB,pcie=12GB/s`, or one of the two."""
    width: int = 0
    """Planes of each expert that are read and computed with, from the top, as far as it has so many; then no
    answer is exact. 0 = all.
    """
    cache_dir: str = ""
    """Packs go into its folder `packs`; empty = the model file's own folder."""
    learn: bool = False
    """Whether answers add to what is known of the experts there (precision/learning.py)."""


class Generate(msgspec.Struct, frozen=True, tag="generate"):
    """Answer a chat (`turns`) or continue raw text (`text`). Answered by `Token`..., then `Finished`."""

    request_id: int
    turns: list[Turn] = []
    text: str | None = None
    max_tokens: int = 0
    """0 = until the context is full."""
    sampling: Sampling = Sampling()
    stop: list[str] = []
    ignore_end: bool = False
    """Go on behind a token that ends an answer: `max_tokens` tokens are measured, whatever they are."""


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    request_id: int


class Score(msgspec.Struct, frozen=True, tag="score"):
    """Log-probabilities of `text`, teacher-forced. Answered by `Scored`."""

    request_id: int
    text: str
    max_tokens: int = 0
    lane: Literal["prefill", "decode"] = "prefill"
    widths: bytes = b""
    """Planes of each block that are computed with, for this text only: u8 [layers, 2 (gate_up, down),
    experts]; empty = those that are committed. All planes have to be in memory for it.
    """
    against_full: bool = False
    """Compare with every plane, at the same positions; always through the decode lane."""
    follow: bool = False
    """Widths follow this text, as the last `Arm` "paged" or "dp" said, which is compared with every plane;
    `widths` say nothing then.
    """


class Arm(msgspec.Struct, frozen=True, tag="arm"):
    """Which widths an arm gives the experts; brings every plane into memory, for the `Score`s that follow.
    Answered by `Progress`..., then `ArmWidths`, or `Failed`.
    """

    request_id: int
    arm: ArmName
    bits: float = 0.0
    """Planes per expert weight on average; `fp16` needs none."""
    budget: str = ""
    """In place of `bits`: as many as the experts have in a budget of this size (`300MiB`, `40%`)."""
    without: Signal = ""
    """A signal that the arm `paged` does without."""
    cache_dir: str = ""
    """A calibration is looked for in its folder `calibration`."""


class Calibrate(msgspec.Struct, frozen=True, tag="calibrate"):
    """Gather the second moments of the experts' inputs and keep them. Answered by `Progress`..., then
    `Calibrated`, or `Failed`; a cancel keeps what the last checkpoint has.
    """

    request_id: int
    cache_dir: str
    """The file goes into its folder `calibration`."""
    text_path: str = ""
    """UTF-8; empty = sources and documentation of Python's standard library."""
    imatrix_path: str = ""
    """An importance matrix of llama.cpp that is taken instead of any text."""
    max_tokens: int = 0
    """Of the text; 0 = the default."""
    resume: bool = False
    """Go on with a calibration that was begun with the same text."""


class Count(msgspec.Struct, frozen=True, tag="count"):
    """How many tokens each of `texts` is, without any special token around it. Answered by `Counted`, at any
    time, also in the middle of another request; by `Failed` while no model is loaded.
    """

    request_id: int
    texts: list[str]


class CountChat(msgspec.Struct, frozen=True, tag="count_chat"):
    """How many tokens the prompt of these turns is, without the words that begin an answer. Answered by
    `Counted` at the next safe point, so not to be asked while an answer is written; by `Failed` while no
    model is loaded, and where the chat template refuses the turns.
    """

    request_id: int
    turns: list[Turn]


class Clear(msgspec.Struct, frozen=True, tag="clear"):
    """Forget all cached prefixes, and how earlier answers were spelled."""


class Watch(msgspec.Struct, frozen=True, tag="watch"):
    """Ask for `Residency` at safe points, at most every `every_s` seconds, and for `Machine`; 0 = no more.

    Each `viewer` has its own wish and the most eager counts. While nobody watches, nothing is computed.
    """

    every_s: float
    viewer: str = "app"


class Pin(msgspec.Struct, frozen=True, tag="pin"):
    """Keep an expert in fast memory (it is read in if it is absent), or with `on` false let it go again.

    Answered by a `Decision` of kind "pin", or "refused" with the reason. Changes speed, never an answer.
    """

    layer: int
    expert: int
    on: bool = True


class Evict(msgspec.Struct, frozen=True, tag="evict"):
    """Give up an expert's pages now. Answered by a `Decision` of kind "evict" or "refused"."""

    layer: int
    expert: int


class Bound(msgspec.Struct, frozen=True, tag="bound"):
    """Bound the width of an expert; with neither of both, end its bound. Answered by a `Decision` of kind
    "bound", or "refused" with the reason: in exact mode, widths do not change.
    """

    layer: int
    expert: int
    least: int = 0
    """Planes below which neither of its blocks falls, as far as it has so many."""
    held: bool = False
    """Both of its blocks stay as wide as they are now."""


class Shutdown(msgspec.Struct, frozen=True, tag="shutdown"):
    pass


# --- events: engine -> app ----------------------------------------------------------------------------------


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """Load or pack progress: `done` of `total` bytes of a stage a person understands."""

    stage: str
    done: int
    total: int


class Memory(msgspec.Struct, frozen=True):
    """The ledger at one safe point, in bytes; field names as in `run --json`."""

    budget_bytes: int = 0
    peak_bytes: int = 0
    process_peak_bytes: int = 0
    static_bytes: int = 0
    expert_bytes: int = 0
    kv_bytes: int = 0
    transient_bytes: int = 0
    free_bytes: int = 0
    expert_hit_rate: float = 1.0
    bytes_paged_in: int = 0
    width_histogram: dict[str, int] = {}
    """How many blocks have so many planes in memory, "0" to "8": an expert is two blocks, the fused gate and
    up projections and the down projection.
    """


class Loaded(msgspec.Struct, frozen=True, tag="loaded"):
    name: str
    architecture: str
    ctx: int
    vocabulary: int
    layers: int
    experts: int
    isa: str
    threads: int
    load_s: float
    memory: Memory
    notices: list[str] = []
    opens_thinking: bool = False
    """The chat template writes `<think>` itself: an answer begins in the middle of thinking."""
    model_ctx: int = 0
    """The longest context that the model was made for, in tokens; `ctx` may be less. 0 = not said."""
    smallest_budget_bytes: int = 0
    """A smaller budget is refused, with the context that was asked for. 0 = not said."""
    base_bytes: int = 0
    """What a budget holds beside experts: dense weights, workspace and the KV floor. 0 = not said."""
    expert_bytes: int = 0
    """Of all experts, in pages of `page_bytes`; a budget in percent is of these."""
    page_bytes: int = 1
    ample_bytes: int = 0
    """What a budget of 100% holds beside those and `base_bytes`; a smaller one leaves it on disk."""
    pack_s: float = 0.0
    """Seconds in which a pack was made for this load; 0 = none was."""
    pack_below_bytes: int = 0
    """A smaller budget needs a pack, and none is there. 0 = no budget does."""
    most_budget_bytes: int = 0
    """A larger budget is refused: there is not so much memory. 0 = not said."""
    pack_bytes: int = 0
    """Room on the disk that this pack would take, about."""
    width: int = 0
    """Planes with which the widest expert block is computed; 0 = there are no experts."""
    planes: int = 0
    """Planes that it has: more than `width` where answers are not exact."""


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """An `EbbtideError` that crossed the pipe. `request_id` 0 = the load itself."""

    request_id: int
    message: str
    hint: str
    exit_code: int
    detail: str = ""
    """The traceback of an internal error, shown with --debug only."""
    needs_pack: bool = False
    """The load would work if it were allowed to make a pack (`Load.pack` "yes")."""
    question_tokens: int = 0
    """Tokens of the last turn, where it alone is longer than the context: no other chat would help."""


class Token(msgspec.Struct, frozen=True, tag="token"):
    """Text that may be shown now (whole characters only) and the ids it came from (0, 1 or several)."""

    request_id: int
    text: str
    ids: list[int]


class Snapshot(msgspec.Struct, frozen=True, tag="snapshot"):
    """Telemetry of one step; at most a few a second are sent."""

    request_id: int
    phase: Literal["idle", "prefill", "decode"]
    prompt_tokens: int
    prompt_done: int
    completion_tokens: int
    context_used: int
    context_size: int
    decode_tok_s: float
    prefill_tok_s: float
    memory: Memory
    expert_hits: int = 0
    """Routed (layer, expert) pairs found resident, and not found, since the load."""
    expert_misses: int = 0
    at_s: float = 0.0
    """The engine's monotonic clock: what passed between two snapshots, however late they arrive."""


class Residency(msgspec.Struct, frozen=True, tag="residency"):
    """Which expert is in fast memory, at one safe point. Arrays are row-major [layers, experts]."""

    layers: int
    experts: int
    """0 = a dense model: then all arrays are empty."""
    widths: bytes
    """u8: planes available of the expert's narrower block; 0 = absent."""
    uses: bytes
    """u32, little-endian: events that routed to the expert since the load."""
    pinned: bytes
    """u8: 1 = pinned by a person."""
    slots: list[int]
    """Experts that each layer may keep now."""
    pages: bytes
    """u32, little-endian: pages of the expert; of an absent one those that it would be read into."""
    page_bytes: int
    spare_bytes: int
    """Arena pages that are free, inside the budget, but still held from the system."""
    memory: Memory
    block_widths: bytes = b""
    """u8[layers, 2 (gate_up, down), experts]: planes available; of an absent expert those that it would be
    read with.
    """
    bounds: bytes = b""
    """u8: planes below which a person lets neither block fall; 0 = no bound. Empty where widths do not
    change.
    """
    held: bytes = b""
    """u8: 1 = a person holds the expert at its widths. Empty like `bounds`."""
    width_bytes: list[int] = []
    """Bytes of the blocks that are here with so many planes, 0 to 8."""
    average_bits: float = 0.0
    """Planes per expert weight that are computed with, over all experts, present or not."""


class Machine(msgspec.Struct, frozen=True, tag="machine"):
    """What the operating system says, in bytes; None = it does not say. About once a second."""

    process_bytes: int | None = None
    """Resident memory of the engine's process."""
    process_swap_bytes: int | None = None
    app_bytes: int | None = None
    """Resident memory of the process that started the engine."""
    available_bytes: int | None = None
    total_bytes: int | None = None
    cgroup_limit_bytes: int | None = None
    cgroup_usage_bytes: int | None = None
    card: str = ""
    """Name of the card that the model is on; empty = it is in this process's memory."""
    card_own_bytes: int | None = None
    """What the driver says that the engine's process holds of the card."""
    card_free_bytes: int | None = None
    card_total_bytes: int | None = None
    """Free and total are of the whole card, other programs included."""


class Decision(msgspec.Struct, frozen=True, tag="decision"):
    """Something the engine decided by itself, or did because a person asked, as one sentence."""

    at: float
    """Seconds since 1970."""
    kind: str
    """"budget", "warm", "prefill", "answer", "kv", "widths", "prefix", "unpin", "pin", "evict", "bound",
    "shortage", "refused" or "pack"."""
    sentence: str
    numbers: dict[str, int | float] = {}


class Ledger(msgspec.Struct, frozen=True, tag="ledger"):
    """Memory after something that was done between requests: read ahead, pinned, evicted."""

    memory: Memory


class Usage(msgspec.Struct, frozen=True):
    prompt: int
    cached: int
    completion: int


class Timings(msgspec.Struct, frozen=True):
    load_s: float = 0.0
    first_token_s: float = 0.0
    prefill_tok_s: float = 0.0
    decode_tok_s: float = 0.0
    max_gap_s: float = 0.0


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The end of a request. `text` and `token_ids` are the whole answer, stop strings removed from the
    text.
    """

    request_id: int
    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    usage: Usage
    timings: Timings
    memory: Memory
    message: str = ""


class Made(msgspec.Struct, frozen=True, tag="made"):
    """The file that a background job (a pack, the starter) has finished."""

    path: str


class Scored(msgspec.Struct, frozen=True, tag="scored"):
    """`token_ids[i]` had natural log-probability `logprobs[i]` given all before; `top1[i]` was the likeliest
    id.
    """

    request_id: int
    token_ids: list[int]
    logprobs: list[float]
    top1: list[int]
    full_logprobs: list[float] = []
    """With every plane; like all that follow only where `Score.against_full` is set."""
    kl: list[float] = []
    """Kullback-Leibler divergence of these predictions from those with every plane, in nats."""
    full_top1: list[int] = []
    """The likeliest ids with every plane."""
    read_bits: float = 0.0
    """Planes read per expert weight, on the average of this text's tokens, where an arm chooses them token by
    token; 0 = `ArmWidths.average_bits`.
    """


class ArmWidths(msgspec.Struct, frozen=True, tag="arm_widths"):
    """For `Score.widths`, and what they take."""

    request_id: int
    widths: bytes
    average_bits: float
    """Planes per expert weight, or 16."""
    expert_bytes: int
    """Scales and planes of all experts at these widths, without the padding of pages."""
    full_bytes: int
    """The same with every plane."""
    fp16_bytes: int
    """All expert weights in 16 bits."""
    notices: list[str] = []
    follows: bool = False
    """These are the widths that a text begins with: for `Score.follow`. They change, and take as much."""


class Calibrated(msgspec.Struct, frozen=True, tag="calibrated"):
    """The calibration file of a model has been written."""

    request_id: int
    path: str
    bytes: int
    tokens: int
    """That the moments were gathered from."""
    unused_experts: int
    """Experts that no token chose: they count as the mean of their layer."""
    has_damage: bool
    """Whether the error of every width was computed from the moments."""
    has_unit: bool = False
    """Whether it was measured what errors of each layer cost: an imatrix has no text to do so."""
    residuals: str = ""
    """What prompt residuals are worth, a sentence; empty = nothing was tried (an imatrix)."""


class Counted(msgspec.Struct, frozen=True, tag="counted"):
    """`tokens[i]` belongs to `Count.texts[i]`; a `CountChat` has one."""

    request_id: int
    tokens: list[int]


Command = (
    Load
    | Generate
    | Cancel
    | Score
    | Calibrate
    | Arm
    | Count
    | CountChat
    | Clear
    | Watch
    | Pin
    | Evict
    | Bound
    | Shutdown
)
Event = (
    Progress
    | Loaded
    | Failed
    | Token
    | Snapshot
    | Ledger
    | Residency
    | Machine
    | Decision
    | Finished
    | Scored
    | Calibrated
    | ArmWidths
    | Counted
    | Made
)
