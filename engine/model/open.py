"""Opening a model under a budget: the file or its pack, the page size, the memory plan."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from ebbtide.engine.errors import FitError, ModelError
from ebbtide.engine.gguf import GgufFile, open_gguf
from ebbtide.engine.memory.budget import parse_budget
from ebbtide.engine.memory.page_size import PageSize, choose, evaluate, layouts_of
from ebbtide.engine.memory.plan import MemoryPlan, Needs
from ebbtide.engine.memory.portions import portion_of
from ebbtide.engine.memory.rows_plan import plan_rows
from ebbtide.engine.messages import Load
from ebbtide.engine.model.embedding import rows_on_disk
from ebbtide.engine.model.rope import rope_table_bytes
from ebbtide.engine.model.spec import ModelSpec
from ebbtide.engine.model.width import checked_width, expert_planes, width_notices
from ebbtide.engine.sizes import mib_typed, mib_words
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_index import pack_path_for
from ebbtide.engine.weights.pack_part import BeingPacked
from ebbtide.engine.weights.pack_source import PackSource, is_pack, open_pack
from ebbtide.engine.weights.pack_write import write_pack
from ebbtide.engine.weights.source import KINDS, WeightSource, distinct_blocks, expert_shapes
from ebbtide.kernels.layout import BlockLayout

Progress = Callable[[str, int, int], None]

WAITING = "Waiting for another ebbtide, which makes the pack"
WAIT_S = 0.5
FLOOR_PLANES = 2
"""Planes that travel with the scales in one extent. Which widths are safe is measured, not laid down here."""


class Place(Protocol):
    """Where a model is opened, as far as its plan depends on it (`engine/room.py`)."""

    @property
    def host_bytes(self) -> int: ...

    @property
    def chunks(self) -> tuple[int, ...]: ...

    @property
    def reads_rows(self) -> bool: ...

    def transient_bytes(self, source: WeightSource, width: int, chunk: int) -> int: ...

    def available_bytes(self) -> int: ...

    def free_bytes(self) -> int: ...

    def whole_bytes(self) -> int: ...


FROM_THE_FILE = "Experts are read from the model file and converted each time: slower than from a pack."


class PackNeeded(FitError):
    """The budget would work with a pack, and none may be made."""

    needs_pack = True


@dataclass(frozen=True)
class OpenModel:
    """A source of weights and how its memory is laid out."""

    source: WeightSource
    page: PageSize
    plan: MemoryPlan
    notices: tuple[str, ...]
    chunk_tokens: int
    """Of the prefill."""
    pack_below_bytes: int = 0
    """A smaller budget would need a pack, which is not there; 0 = none would."""
    width: int = 0
    """Planes of each expert that are used; 0 = all."""
    pack_s: float = 0.0
    """Seconds in which its pack was made; 0 = it was there, or there is none."""

    @property
    def spec(self) -> ModelSpec:
        return self.source.spec


def kv_bytes_per_token(spec: ModelSpec) -> int:
    """K and V of one position in one layer, BF16."""
    return 2 * 2 * spec.kv_heads * spec.head_dim


def page_size_for(source: GgufSource, books: BookWish | None = None) -> PageSize:
    """The page size that suits the experts' planes and the KV of a model file; with `books`, those of a pack
    with any-precision codes.

    One for all widths: a pack serves them all, and nothing else differs between two of them.
    """
    shapes = expert_shapes(source.map) if books is None else books.expert_shapes(source.map)
    layouts = layouts_of(distinct_blocks(shapes.values(), source.spec.experts), FLOOR_PLANES)
    return choose(layouts, kv_bytes_per_token(source.spec))


def open_model(command: Load, place: Place, progress: Progress) -> OpenModel:
    """Open `command.path` (a model or a pack), making a pack first where the budget needs one and it may be
    made.

    With `pack` "plain" a pack is neither made nor used.

    Raises ModelError for the file, UsageError for budget or context, FitError when it does not fit,
    PackNeeded.
    """
    path = Path(command.path)
    file = open_gguf(path)
    if is_pack(file):
        return _planned(open_pack(path), command, place)
    plain = GgufSource(file, floor_planes=FLOOR_PLANES)
    plain.page_bytes = page_size_for(plain).page_bytes
    pack_path = pack_path_for(path, Path(command.cache_dir) if command.cache_dir else path.parent)
    model = _planned(plain, command, place)
    if not plain.spec.experts:
        return model
    if command.pack == "plain":
        return model if model.plan.is_whole else replace(model, notices=(*model.notices, FROM_THE_FILE))
    pack, why_not = _existing_pack(pack_path, file)
    began, pack_s = time.perf_counter(), 0.0
    if pack is None and command.pack == "yes":
        _make_pack(file, pack_path, plain.page_bytes, progress)
        pack = open_pack(pack_path, disposable=True)
        pack_s = time.perf_counter() - began
    if pack is not None:
        plain.close()
        return replace(_planned(pack, command, place), pack_s=pack_s)
    if model.plan.expert_bytes <= place.host_bytes:
        return model
    if not model.plan.is_whole:
        plain.close()
        raise _pack_needed(model.plan, path, why_not)
    return replace(model, pack_below_bytes=model.plan.base_bytes + model.plan.expert_bytes)


def _make_pack(model: GgufFile, pack_path: Path, page_bytes: int, progress: Progress) -> None:
    """Make the pack, or wait until another process has made it; one that dies is taken over from."""

    def is_made() -> bool:
        pack, _ = _existing_pack(pack_path, model)
        if pack is not None:
            pack.close()
        return pack is not None

    while True:
        try:
            write_pack(
                model.path,
                pack_path,
                page_bytes=page_bytes,
                floor_planes=FLOOR_PLANES,
                progress=_staged(progress),
                is_made=is_made,
            )
            return
        except BeingPacked:
            progress(WAITING, 0, 0)
            time.sleep(WAIT_S)


def _staged(progress: Progress) -> Callable[[int, int], None]:
    return lambda done, total: progress("Packing", done, total)


def _existing_pack(pack_path: Path, model: GgufFile) -> tuple[PackSource | None, str]:
    """The pack made from exactly this model file; without one, None and why.

    A pack in the cache holds nothing that the model does not: one that cannot be used is as good as none. One
    with any-precision codes has other weights than the model, and is used where it is asked for by name only.
    """
    if not pack_path.exists():
        return None, "has no pack to page from"
    try:
        pack = open_pack(pack_path, disposable=True)
    except ModelError as error:
        return None, f"has no usable pack to page from ({error})"
    if pack.matches(model) and pack.index.books is None:
        return pack, ""
    pack.close()
    has_books = pack.index.books is not None
    return None, (
        "has no pack but one with any-precision codes" if has_books else "has changed since its pack was made"
    )


def _pack_needed(plan: MemoryPlan, path: Path, why: str) -> PackNeeded:
    whole = plan.base_bytes + plan.expert_bytes
    return PackNeeded(
        f"A budget of {mib_words(plan.budget_bytes)} is below the model's {mib_words(whole)}: its "
        f"experts must be paged, and {path.name} {why}.",
        hint=f"Add --pack yes (once; about {mib_words(path.stat().st_size)} of disk), "
        f"or give --budget {mib_typed(whole)}.",
    )


def _planned(source: WeightSource, command: Load, place: Place) -> OpenModel:
    page, planes = _page(source), expert_planes(source)
    width = checked_width(command.width, planes)
    chunks = [(chunk, place.transient_bytes(source, width, chunk)) for chunk in place.chunks]
    chunk, plan = plan_rows(
        rows_on_disk(source) if place.reads_rows else None,
        chunks,
        _needs(source, command.ctx, page, width, chunks[0][1]),
        parse_budget(command.budget),
        ctx=command.ctx,
        available_bytes=place.available_bytes(),
        whole_bytes=place.whole_bytes(),
        free_bytes=place.free_bytes(),
    )
    reason = (page.reason,) if page.reason else ()
    notices = (*width_notices(width, planes), *plan.notices, *reason)
    return OpenModel(source, page, plan, notices, chunk_tokens=chunk, width=width)


def _needs(source: WeightSource, ctx: int, page: PageSize, width: int, transient_bytes: int) -> Needs:
    spec = source.spec
    expert_pages = tuple(
        sum(portion_of(source.expert_layout(layer, kind), width).pages for kind in KINDS)
        for layer in range(spec.layers if spec.experts else 0)
    )
    return Needs(
        static_bytes=source.static_bytes + rope_table_bytes(spec, ctx or spec.context),
        transient_bytes=transient_bytes,
        page_bytes=page.page_bytes,
        layers=spec.layers,
        tokens_per_page=page.tokens,
        context=spec.context,
        expert_pages=expert_pages,
        experts=spec.experts,
    )


def _page(source: WeightSource) -> PageSize:
    """The source's page size with its wastes; a pack brings the size it was made with."""
    spec = source.spec

    def layouts(page_bytes: int) -> list[tuple[BlockLayout, int]]:
        return [
            (source.expert_layout(layer, kind), spec.experts)
            for layer in range(spec.layers if spec.experts else 0)
            for kind in KINDS
        ]

    found = evaluate(source.page_bytes, layouts, kv_bytes_per_token(spec))
    if found is None:
        raise FitError(
            f"pages of {source.page_bytes >> 10} KiB hold no KV block of this model",
            hint="Make its pack again: `ebbtide pack MODEL`.",
        )
    return found
