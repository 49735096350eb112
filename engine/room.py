"""Where a model's fast memory is and who computes in it: this process, or (card_room.py) a card."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ebbtide.engine.device.card_memory import CardMemory
from ebbtide.engine.memory.mover import Mover, Moves
from ebbtide.engine.memory.observed import observe, process_peak_bytes
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.slabs import HostSlabs, SlabMemory
from ebbtide.engine.model.forward import Forward, Pass
from ebbtide.engine.model.rows import Rows
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import DenseWeights, Home, HostHome
from ebbtide.engine.weights.source import WeightSource
from ebbtide.kernels.ops import KvLayout, Ops, WorkspaceShape

Progress = Callable[[str, int, int], None]

CHUNK_TOKENS = 256
"""Prefill goes in chunks of up to so many tokens (prefill_chunks.py); fast memory always has room for one."""
LONG_CHUNK_TOKENS = 576
"""The same where memory is ample: weights are unpacked, and experts read in, half as often. One chunk
holds 512 tokens and the template around them.
"""
LOGIT_ROWS = 16
UNKNOWN_ROOM_BYTES = 4 << 30
"""What `--budget auto` may take where the system does not say how much memory is free."""


class Room(Protocol):
    """One model's; made before it is opened. What it raises is EbbtideError."""

    isa: str
    """What computes, in a word."""
    threads: int
    home: Home
    slabs: SlabMemory
    host_bytes: int
    """Experts that are kept in ordinary memory, in front of the disk."""

    chunks: tuple[int, ...]
    """Tokens of a prefill chunk, the least first: which one is taken depends on the budget."""
    reads_rows: bool
    """Whether rows of the token embedding may be read when they are needed, where memory is short."""

    def transient_bytes(self, source: WeightSource, width: int, chunk: int) -> int:
        """Activations, kernel scratch, logits: reserved before anything is admitted.

        `width`: planes of each expert that are used; 0 = all. `chunk`: tokens of the longest prefill chunk.
        """
        ...

    def available_bytes(self) -> int:
        """What `--budget auto` may take."""
        ...

    def free_bytes(self) -> int:
        """What a budget may take without taking it from others."""
        ...

    def whole_bytes(self) -> int:
        """The memory that is there, free or not; 0 = not known."""
        ...

    def mover(self, source: WeightSource, width: int) -> Moves:
        """What brings experts, `width` planes of each (0 = all), into pages."""
        ...

    def forward(
        self,
        spec: ModelSpec,
        weights: DenseWeights,
        pager: Pager | None,
        kv: KvLayout,
        context: int,
        chunk: int,
    ) -> Pass:
        """Passes of up to `chunk` rows."""
        ...

    def prepare(self, rehearse: Callable[[int], None], progress: Progress) -> None:
        """What has to be done once before somebody waits; `rehearse` runs a prompt of so many tokens."""
        ...

    def peak_bytes(self) -> int | None:
        """The most memory that was held, as the system or the driver says; None = it does not."""
        ...

    def card(self) -> tuple[str, CardMemory] | None:
        """Name and memory of the card that it is on; None = on none. May be asked by any thread."""
        ...

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know about it."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


def workspace_shape(spec: ModelSpec, context: int, chunk: int) -> WorkspaceShape:
    """The largest call that a forward pass of up to `chunk` rows makes."""
    q_rows = spec.heads * spec.head_dim
    inner = max(spec.d_ff, spec.shared_d_ff, spec.expert_d_ff)
    return WorkspaceShape(
        max_rows=chunk,
        max_cols=max(spec.d_model, q_rows, inner),
        max_out_rows=max(2 * inner, q_rows + 2 * spec.kv_heads * spec.head_dim, spec.d_model),
        experts=max(spec.experts, 1),
        top_k=max(spec.top_k, 1),
        d_ff=max(spec.expert_d_ff, 1),
        max_context=context,
        heads=spec.heads,
        head_dim=spec.head_dim,
    )


class HostRoom:
    """This process's memory and processors."""

    host_bytes = 0
    chunks: tuple[int, ...] = (CHUNK_TOKENS, LONG_CHUNK_TOKENS)
    reads_rows = True

    def __init__(self, ops: Ops, *notices: str) -> None:
        self._ops = ops
        self.notices = notices
        self.isa, self.threads = ops.name, ops.threads
        self.home: Home = HostHome()
        self.slabs: SlabMemory = HostSlabs()

    def transient_bytes(self, source: WeightSource, width: int, chunk: int) -> int:
        """See `Room.transient_bytes`."""
        spec = source.spec
        logits = 4 * LOGIT_ROWS * spec.vocab
        workspace = self._ops.workspace_bytes(workspace_shape(spec, spec.context, chunk))
        return Rows(spec, chunk).nbytes + workspace + logits

    def available_bytes(self) -> int:
        """See `Room.available_bytes`."""
        room = observe().budget_room_bytes
        return UNKNOWN_ROOM_BYTES if room is None else room

    def free_bytes(self) -> int:
        """See `Room.free_bytes`."""
        free = observe().free_bytes
        return UNKNOWN_ROOM_BYTES if free is None else free

    def whole_bytes(self) -> int:
        """See `Room.whole_bytes`."""
        return observe().whole_bytes

    def mover(self, source: WeightSource, width: int) -> Moves:
        """See `Room.mover`."""
        return Mover(source)

    def forward(
        self,
        spec: ModelSpec,
        weights: DenseWeights,
        pager: Pager | None,
        kv: KvLayout,
        context: int,
        chunk: int,
    ) -> Pass:
        """See `Room.forward`."""
        # Zeroed by a write each, so that the memory is there (and charged) before the first prompt needs it.
        shape = workspace_shape(spec, spec.context, chunk)
        workspace = np.zeros(self._ops.workspace_bytes(shape), np.uint8)
        self._ops.set_workspace(workspace)
        return Forward(spec, self._ops, weights, pager, chunk, context)

    def prepare(self, rehearse: Callable[[int], None], progress: Progress) -> None:
        """See `Room.prepare`: nothing."""

    def peak_bytes(self) -> int | None:
        """See `Room.peak_bytes`."""
        return process_peak_bytes()

    def card(self) -> None:
        """See `Room.card`."""

    def close(self) -> None:
        """See `Room.close`: the memory goes with the last reference."""
