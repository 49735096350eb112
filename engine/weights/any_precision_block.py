"""From the rows of GGUF tensors to a block with any-precision codes, each matrix with a book of its own.

Unlike `convert_block` it holds a whole matrix in f32: its book depends on all of its weights.
"""

import numpy as np

from ebbtide.engine.model.mapping import Part, Parts
from ebbtide.engine.weights.any_precision import CodeBook, code_book
from ebbtide.engine.weights.codes import F16, F32, FLOAT_TYPES, Codes, Scales, to_float
from ebbtide.engine.weights.convert import BOOKS, PIECE_WEIGHTS, Losses, Put, Read, pieces, strip_multiple
from ebbtide.engine.weights.decode import decode, row_bytes
from ebbtide.engine.weights.float_types import floats_of, group_scales, sqnr_db
from ebbtide.engine.weights.nested_parts import F64
from ebbtide.engine.weights.packers import line_packer
from ebbtide.engine.weights.planes import write_rows
from ebbtide.kernels.layout import MAX_PLANES, BlockLayout, MatrixView


def any_precision_block(
    read: Read,
    parts: Parts,
    layout: BlockLayout,
    put: Put,
    losses: Losses,
    moments: F32 | None,
    *,
    seed_width: int,
) -> F64:
    """Make the books of a block and `put` its tables, meta data and planes; moments f32[K] as in `code_book`.

    Returns f64[9], the block's error at widths 0 .. 8 (`CodeBook.errors`, of all matrices together): against
    the file's weights, so it is not 0 with all planes. Widths above those repeat it. Raises ModelError for
    weights that are not finite or far too large.
    """
    total = np.zeros(MAX_PLANES + 1)
    for part, view in zip(parts, layout.views, strict=True):
        weights = _weights(read, part)
        scales = group_scales(weights)
        planes = view.shape.format.planes
        book = code_book(weights, scales, moments, planes=planes, seed_width=seed_width)
        put(view.tables_offset, book.tables_bytes())
        _put_codes(put, view, book, weights, scales, losses)
        total += np.pad(book.errors, (0, MAX_PLANES - planes), mode="edge")
    return total


def books_notice(model: str, losses: Losses) -> str:
    """What somebody who loads the pack should know."""
    signal, noise = losses.sums.get(BOOKS, (0.0, 0.0))
    if not noise:
        return f"Experts have any-precision codes, which with all planes are exactly the weights of {model}."
    return (
        f"Experts have any-precision codes, which lose something against {model}: with all planes signal to "
        f"error is {sqnr_db(signal, noise):.1f} dB. Exact means exactly these codes."
    )


def _weights(read: Read, part: Part) -> F32:
    """f32[N, K] of a matrix."""
    type_name, bytes_per_row = part.tensor.type_name, row_bytes(part.tensor.type_name, part.cols)
    weights = np.empty((part.rows, part.cols), np.float32)
    for first, raw in pieces(read, part, bytes_per_row):
        rows = raw.size // bytes_per_row
        if type_name in FLOAT_TYPES:
            weights[first : first + rows] = floats_of(raw, type_name).reshape(rows, part.cols)
            continue
        codes = decode(raw, type_name, rows, part.cols)
        weights[first : first + rows] = to_float(codes.format, codes.codes, codes.scales)
    return weights


def _put_codes(put: Put, view: MatrixView, book: CodeBook, weights: F32, scales: F16, losses: Losses) -> None:
    packer, each = line_packer(), strip_multiple(PIECE_WEIGHTS // weights.shape[1])
    for first in range(0, len(weights), each):
        some, its = weights[first : first + each], scales[first : first + each]
        codes = book.encode(some, its)
        lost = book.decode(codes, its, book.planes) - some
        signal, noise = (float(np.square(array, dtype=np.float64).sum()) for array in (some, lost))
        losses.add(BOOKS, signal, noise)
        write_rows(put, view, first, Codes(book.format, codes, Scales(its)), packer=packer)
