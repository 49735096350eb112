"""The room of a model on a card: fast memory there, experts in ordinary memory in front of the disk."""

from collections.abc import Callable

from ebbtide.engine.device.card_memory import CardMemory
from ebbtide.engine.device.place import Place
from ebbtide.engine.device.staging import SLOTS, StagingRing
from ebbtide.engine.device.tensors import PIECE_BYTES, SHARED_BYTES
from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.host_tier import HostTier
from ebbtide.engine.memory.mover import Moves
from ebbtide.engine.memory.observed import observe
from ebbtide.engine.memory.pager import Pager
from ebbtide.engine.memory.portions import portion_of
from ebbtide.engine.memory.slabs import SlabMemory
from ebbtide.engine.memory.upload import UploadMover, slot_bytes_for
from ebbtide.engine.model.card_forward import CardForward
from ebbtide.engine.model.card_home import CardHome
from ebbtide.engine.model.rows import Rows
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.weights import DenseWeights, Home
from ebbtide.engine.room import CHUNK_TOKENS, LOGIT_ROWS, Progress, workspace_shape
from ebbtide.engine.weights.source import KINDS, Kind, WeightSource
from ebbtide.kernels.layout import BlockLayout
from ebbtide.kernels.ops import KvLayout
from ebbtide.kernels.triton.mirrors import mirror_bytes
from ebbtide.kernels.triton.ops import CardOps, workspace_bytes

REHEARSAL_ROWS = 15
"""8 + 4 + 2 + 1: products are made for so many rows at a time, so this meets each of their kernels."""


class CardRoom:
    """See `Room`."""

    threads = 0
    chunks: tuple[int, ...] = (CHUNK_TOKENS,)
    reads_rows = False

    def __init__(self, place: Place) -> None:
        self._place, self._ring_notice = place, ""
        self._peak_bytes = 0
        self.isa = "sm_{}{}".format(*place.card.capability)
        self.home: Home = CardHome(place.tensors)
        self.slabs: SlabMemory = place.lanes
        self.host_bytes = observe().budget_room_bytes or 0

    @property
    def notices(self) -> tuple[str, ...]:
        """See `Room.notices`."""
        return tuple(notice for notice in (self._place.notice, self._ring_notice) if notice)

    def transient_bytes(self, source: WeightSource, width: int, chunk: int) -> int:
        """See `Room.transient_bytes`: also tables, the staging ring, and what the driver has for itself.

        It is the first that is asked, so here weights are refused that no kernel on a card knows: FitError.
        """
        _refuse_tables(source)
        spec = source.spec
        layouts = list(_expert_layouts(source).values())
        tables = sum(mirror_bytes(layout, spec.experts) for layout in layouts)
        blocks = -(-spec.context // kv_tokens(source))
        inputs = 8 * chunk + 4 * LOGIT_ROWS * spec.vocab + 8 * spec.layers * blocks
        work = workspace_bytes(workspace_shape(spec, spec.context, chunk)) + Rows(spec, chunk).nbytes
        # Small tensors share pieces; each leaves less than a small tensor's size of one unused.
        rounding = 4 * PIECE_BYTES + spec.layers * SHARED_BYTES
        ring = _ring_bytes(source, width)
        return tables + inputs + work + rounding + ring + self._place.overhead_bytes

    def available_bytes(self) -> int:
        """See `Room.available_bytes`."""
        return self._place.room_bytes + self._place.overhead_bytes

    def free_bytes(self) -> int:
        """See `Room.free_bytes`: what `auto` takes."""
        return self.available_bytes()

    def whole_bytes(self) -> int:
        """See `Room.whole_bytes`."""
        return self._place.total_bytes

    def mover(self, source: WeightSource, width: int) -> Moves:
        """See `Room.mover`. Raises FitError when the card has no room for a single block."""

        def size(layer: int, kind: Kind) -> tuple[int, int]:
            portion = portion_of(source.expert_layout(layer, kind), width)
            return portion.pages * source.page_bytes, portion.last_extent

        try:
            ring = StagingRing(self._place.lanes, _ring_bytes(source, width) // SLOTS)
        except MemoryError as error:
            raise FitError(
                "The card has no room to stage experts in.",
                hint="Close other programs that use the card, give a smaller --budget, or use --device cpu.",
            ) from error
        self._ring_notice = ring.notice
        return UploadMover(HostTier(source, size, self.host_bytes), ring, self._place.lanes)

    def forward(
        self,
        spec: ModelSpec,
        weights: DenseWeights,
        pager: Pager | None,
        kv: KvLayout,
        context: int,
        chunk: int,
    ) -> CardForward:
        """See `Room.forward`."""
        place = self._place
        ops = CardOps(workspace_shape(spec, spec.context, chunk), place.tensors.empty, place.side.stream)
        for layer in range(spec.layers if pager is not None else 0):
            assert pager is not None
            ops.adopt(pager.gate_up(layer))
            ops.adopt(pager.down(layer))
        return CardForward(
            spec,
            ops,
            weights,
            pager,
            place.tensors,
            rows=chunk,
            logit_rows=LOGIT_ROWS,
            context=context,
            blocks=-(-context // kv.tokens),
        )

    def prepare(self, rehearse: Callable[[int], None], progress: Progress) -> None:
        """See `Room.prepare`: kernels are compiled when they are first launched, and kept on the disk."""
        if self._place.side.compiles:
            progress("Preparing the card", 0, 1)
            rehearse(REHEARSAL_ROWS)
            progress("Preparing the card", 1, 1)

    def peak_bytes(self) -> int | None:
        """See `Room.peak_bytes`: the driver's figure at the times when somebody asked."""
        own = self._place.own_bytes()
        if own is None:
            return None
        self._peak_bytes = max(self._peak_bytes, own)
        return self._peak_bytes

    def card(self) -> tuple[str, CardMemory]:
        """See `Room.card`."""
        return self._place.card.name, self._place.memory_now()

    def close(self) -> None:
        """See `Room.close`."""
        self._place.close()


def _refuse_tables(source: WeightSource) -> None:
    names = sorted(form.name for form in source.formats() if form.table or form.own_tables)
    if names:
        raise FitError(
            f"Weights of type {' and '.join(names)} cannot be computed with on a card yet.",
            hint="Use --device cpu.",
        )


def kv_tokens(source: WeightSource) -> int:
    """Positions of one KV page, BF16."""
    return max(1, source.page_bytes // (4 * source.spec.kv_heads * source.spec.head_dim))


def _expert_layouts(source: WeightSource) -> dict[tuple[int, Kind], BlockLayout]:
    spec = source.spec
    layers = range(spec.layers if spec.experts else 0)
    return {(layer, kind): source.expert_layout(layer, kind) for layer in layers for kind in KINDS}


def _ring_bytes(source: WeightSource, width: int) -> int:
    """The staging ring's share of the card: slots that hold the largest block at this width."""
    pages = [portion_of(layout, width).pages for layout in _expert_layouts(source).values()]
    return SLOTS * max((slot_bytes_for(count, source.page_bytes) for count in pages), default=0)
