"""From the rows of GGUF tensors to a block's address space, a piece at a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ebbtide.engine.model.mapping import Part, Parts
from ebbtide.engine.weights.codes import FLOAT_TYPES, U8
from ebbtide.engine.weights.decode import decode, row_bytes
from ebbtide.engine.weights.float_types import sqnr_db
from ebbtide.engine.weights.packers import line_packer
from ebbtide.engine.weights.planes import write_rows
from ebbtide.kernels.layout import STRIP_ROWS, BlockLayout

Put = Callable[[int, U8], None]
"""(offset in the block's address space, bytes): stores a piece of a block."""
Read = Callable[[int, int], U8]
"""(offset in the file, bytes) -> u8[bytes], valid until the next call."""

_READ_BYTES = 1 << 20
PIECE_WEIGHTS = 1 << 17
"""Weights converted at once: their codes and temporaries stay in the second-level cache."""


BOOKS = "any-precision"
"""Stands for the type of all weights that have any-precision codes."""


@dataclass
class Losses:
    """What weights lost on becoming codes: sums of squares [signal, noise] per GGUF type of floats, and of
    `BOOKS`.
    """

    sums: dict[str, list[float]] = field(default_factory=dict)

    def add(self, type_name: str, signal: float, noise: float) -> None:
        """Count some weights of a float type or of `BOOKS`; others lose nothing and are not counted."""
        if type_name in (*FLOAT_TYPES, BOOKS):
            total = self.sums.setdefault(type_name, [0.0, 0.0])
            total[0] += signal
            total[1] += noise

    def merge(self, other: "Losses") -> None:
        """Count what `other` has counted."""
        for type_name, (signal, noise) in other.sums.items():
            self.add(type_name, signal, noise)

    def notices(self) -> list[str]:
        """A sentence per float type with the error in dB."""
        return [
            f"{name} weights are kept as 8-bit codes: signal to error {sqnr_db(*sums):.1f} dB."
            for name, sums in sorted(self.sums.items())
            if name != BOOKS
        ]


def convert_block(read: Read, parts: Parts, layout: BlockLayout, put: Put, losses: Losses) -> int:
    """Convert the matrices of a block and `put` all their meta data and planes; returns the bytes read."""
    packer, total = line_packer(), 0
    for part, view in zip(parts, layout.views, strict=True):
        bytes_per_row = row_bytes(part.tensor.type_name, part.cols)
        for first, raw in pieces(read, part, bytes_per_row):
            codes = decode(raw, part.tensor.type_name, raw.size // bytes_per_row, part.cols)
            losses.add(part.tensor.type_name, codes.signal, codes.noise)
            write_rows(put, view, first, codes, packer=packer)
        total += part.rows * bytes_per_row
    return total


def pieces(read: Read, part: Part, bytes_per_row: int) -> Iterator[tuple[int, U8]]:
    """(first row, raw bytes) of strips of the part: read in large pieces, handed out in small ones."""
    rows_read = strip_multiple(_READ_BYTES // bytes_per_row)
    rows_each = strip_multiple(min(PIECE_WEIGHTS // part.cols, rows_read))
    start = part.tensor.offset + part.first_row * bytes_per_row
    for first in range(0, part.rows, rows_read):
        rows = min(rows_read, part.rows - first)
        raw = read(start + first * bytes_per_row, rows * bytes_per_row)
        for row in range(0, rows, rows_each):
            yield first + row, raw[row * bytes_per_row : min(row + rows_each, rows) * bytes_per_row]


def strip_multiple(rows: int) -> int:
    """So many rows or a few less: whole strips, one at least."""
    return max(STRIP_ROWS, rows - rows % STRIP_ROWS)


def put_into(block: U8) -> Put:
    """A `Put` into contiguous memory u8[span]."""

    def put(at: int, data: U8) -> None:
        block[at : at + data.size] = data

    return put


def put_into_pages(start: int, pages: Sequence[U8]) -> Put:
    """A `Put` into equal pages u8[page_bytes]: the address space from `start` on. The rest is dropped."""
    page_bytes = pages[0].size
    end = start + page_bytes * len(pages)

    def put(at: int, data: U8) -> None:
        skip = max(start - at, 0)
        position, left = at + skip - start, data[skip : max(end - at, 0)]
        while left.size:
            index, inside = divmod(position, page_bytes)
            piece = min(left.size, page_bytes - inside)
            pages[index][inside : inside + piece] = left[:piece]
            position, left = position + piece, left[piece:]

    return put
