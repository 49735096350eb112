"""Making a pack: planned first, converted by two threads, resumable after a kill at any point."""

import errno
import math
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ebbtide.engine.errors import FitError, ModelError, UsageError
from ebbtide.engine.gguf import open_gguf
from ebbtide.engine.pack_names import PACK_SUFFIX
from ebbtide.engine.sizes import format_bytes
from ebbtide.engine.weights.any_precision_block import any_precision_block, books_notice
from ebbtide.engine.weights.book_wish import BookWish
from ebbtide.engine.weights.checksums import CHECKSUM_BYTES, HEADER_PLACE, crcs_of
from ebbtide.engine.weights.codes import U8
from ebbtide.engine.weights.convert import Losses, Put, convert_block
from ebbtide.engine.weights.gguf_source import GgufSource
from ebbtide.engine.weights.pack_index import ERROR_BYTES, identify
from ebbtide.engine.weights.pack_part import PartFile
from ebbtide.engine.weights.pack_plan import PackPlan, Unit, encode_report, plan_pack
from ebbtide.engine.weights.pack_source import is_pack, read_index

Progress = Callable[[int, int], None]
"""(bytes done, bytes in all)."""

WORKERS = 2
_AHEAD = 4
_FLUSH_BYTES = 64 << 20


def write_pack(
    source_path: Path,
    out_path: Path,
    *,
    page_bytes: int,
    floor_planes: int = 2,
    books: BookWish | None = None,
    progress: Progress = lambda done, total: None,
    resume: bool = True,
    is_made: Callable[[], bool] = lambda: False,
) -> Path:
    """Write the pack of a model and return its path; `out_path` appears only when it is whole.

    books: its experts get any-precision codes, which such a pack says of itself (`Books`).

    Whatever ends the work early, also an exception from `progress`, leaves `OUT.part` and `OUT.part.json`,
    from which the next call goes on (unless `resume` is false or the model has changed): the result has the
    same bytes as that of an uninterrupted run. `is_made` is asked once nobody else can write there: if the
    pack has been made meanwhile, it is left as it is. Raises FitError when the disk is or becomes too small,
    ModelError when the model is not usable or changes meanwhile, BeingPacked while another process packs it,
    UsageError when `out_path` is something that is not a pack, or one with the other kind of codes.
    """
    _check_place(source_path, out_path, books)
    source = GgufSource(open_gguf(source_path), page_bytes=page_bytes, floor_planes=floor_planes)
    try:
        plan = plan_pack(source, books)
        with _disk_errors(out_path, plan):
            out_path.parent.mkdir(parents=True, exist_ok=True)
            with PartFile(out_path, plan, resume=resume) as part:
                if is_made():
                    part.discard()
                    return out_path
                part.check_space()
                _write_units(_Work(source, plan, part, books), progress)
                report = encode_report(_notices(source, part, books))
                part.write(plan.report_offset, np.frombuffer(report, np.uint8))
                _write_checksums(part, plan, HEADER_PLACE, [zlib.crc32(plan.header)])
                if books is not None:
                    size = ERROR_BYTES * math.prod(plan.errors_shape)
                    _check_written(part, plan, plan.errors_offset, plan.errors_checksum, (size,))
                _check_unchanged(source, plan, part)
                part.publish()
    finally:
        source.close()
    return out_path


class _Work(NamedTuple):
    source: GgufSource
    plan: PackPlan
    part: PartFile
    books: BookWish | None


def _write_units(work: _Work, progress: Progress) -> None:
    """Convert what is not done yet, in order, with a checkpoint now and then and when it ends early."""
    plan, part = work.plan, work.part
    good = part.done
    flushed = sum(unit.nbytes for unit in plan.units[:good])
    done, total = flushed, sum(unit.nbytes for unit in plan.units)
    try:
        progress(done, total)
        for count, unit, losses in _converted(work):
            part.losses.merge(losses)
            good, done = count, done + unit.nbytes
            if done - flushed >= _FLUSH_BYTES:
                part.checkpoint(good)
                flushed = done
            progress(done, total)
    except BaseException:
        with suppress(OSError):
            part.checkpoint(good)
        raise


def _converted(work: _Work) -> Iterator[tuple[int, Unit, Losses]]:
    """(units done, unit, its losses) in order, while a few more are being worked on."""
    units, done = work.plan.units, work.part.done
    pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="ebbtide-pack")
    waiting: deque[Future[Losses]] = deque()
    ahead = iter(units[done:])
    try:
        for count in range(done, len(units)):
            while len(waiting) < _AHEAD and (unit := next(ahead, None)):
                waiting.append(pool.submit(_write_unit, work, unit))
            losses = waiting.popleft().result()
            yield count + 1, units[count], losses
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _write_unit(work: _Work, unit: Unit) -> Losses:
    source, plan, part, books = work
    losses = Losses()
    if unit.layout is None:
        part.write(unit.offset, source.vector(unit.vector).reshape(-1).view(np.uint8))
    elif books is not None and unit.expert is not None:
        put, moments = _put_at(part, unit.offset), books.moments_of(*unit.expert)
        read, seed = source.reader.read, books.seed_width
        errors = any_precision_block(read, unit.parts, unit.layout, put, losses, moments, seed_width=seed)
        part.write(plan.errors_place(*unit.expert), errors.astype("<f4").view(np.uint8))
    else:
        convert_block(source.reader.read, unit.parts, unit.layout, _put_at(part, unit.offset), losses)
    _check_written(part, plan, unit.offset, unit.checksum, unit.pieces)
    return losses


def _check_written(
    part: PartFile, plan: PackPlan, offset: int, checksum: int, pieces: tuple[int, ...]
) -> None:
    """Write checksums of what is there now: planes, padding and errors are not written in their order."""
    written = (memoryview(data) for data in part.read(offset, sum(pieces)))
    _write_checksums(part, plan, checksum, crcs_of(written, pieces))


def _write_checksums(part: PartFile, plan: PackPlan, place: int, crcs: list[int]) -> None:
    part.write(plan.checksums_offset + CHECKSUM_BYTES * place, np.array(crcs, "<u4").view(np.uint8))


def _put_at(part: PartFile, start: int) -> Put:
    def put(at: int, data: U8) -> None:
        part.write(start + at, data)

    return put


def _check_unchanged(source: GgufSource, plan: PackPlan, part: PartFile) -> None:
    if identify(source.file) != plan.index.source:
        part.discard()
        raise ModelError(
            f"{source.file.path.name} changed while it was being packed",
            hint="Wait until its download or copy has ended, then pack it again.",
        )


def _notices(source: GgufSource, part: PartFile, books: BookWish | None) -> list[str]:
    about = [] if books is None else [books_notice(source.file.path.name, part.losses)]
    return about + part.losses.notices()


def _check_place(source_path: Path, out_path: Path, books: BookWish | None) -> None:
    """Only a pack may be replaced by a pack: the model itself, or anything else there, would be lost. And one
    with other weights than the model's never takes the place of one with the same, nor the other way round.
    """
    hint = "Name a file that is not there yet."
    if out_path.is_dir():
        raise UsageError(f"{out_path} is a folder", hint=f"Name a file in it: {out_path / 'NAME.pack.gguf'}.")
    if out_path.exists() and out_path.samefile(source_path):
        raise UsageError("the pack would take the place of the model it is made from", hint=hint)
    if out_path.exists() and not _may_be_replaced(out_path):
        raise UsageError(f"{out_path} is there already and is not a pack", hint=hint)

    if out_path.exists() and _has_books(out_path) is (books is None):
        there = "any-precision codes" if books is None else "the model's own codes"
        raise UsageError(
            f"{out_path} is a pack with {there}: this one, with other weights, does not take its place",
            hint="Name another file with --out, or remove that one first.",
        )


def _has_books(path: Path) -> bool | None:
    """None where that cannot be told: a pack that is damaged, or of another version."""
    try:
        return read_index(open_gguf(path)).books is not None
    except ModelError:
        return None


def _may_be_replaced(path: Path) -> bool:
    """A pack, also a damaged one; ebbtide's own name for packs says so where the file itself cannot."""
    if path.name.endswith(PACK_SUFFIX):
        return True
    try:
        return is_pack(open_gguf(path))
    except ModelError:
        return False


@contextmanager
def _disk_errors(out_path: Path, plan: PackPlan) -> Iterator[None]:
    """Turn failed writes into errors that say what to do; what is good so far stays for the next call."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FitError(
                f"The disk became full while {out_path.name} was written ({format_bytes(plan.total_bytes)})",
                hint=f"Free some space in {out_path.parent} and pack again: it goes on where it stopped.",
            ) from error
        raise ModelError(
            f"{out_path.name} cannot be written: {error.strerror or error}",
            hint=f"Check {out_path.parent} and its disk, or choose another place with --out.",
        ) from error
