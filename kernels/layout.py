"""Where the bits of a weight matrix lie: tiles, planes, scales, and blocks of matrices.

A matrix of N rows x K columns is cut into *strips* of 16 rows (N is padded up) and *groups* of 32 columns.
One 64-byte *line* holds one bit of each of the 16 x 32 weights of a (strip, group):

    plane p of a matrix = strips x groups lines, strip-major: line (t, g) at byte ((t * groups) + g) * 64
    a line = 2 halves of 32 bytes; half h covers columns 16h .. 16h + 15 of the group
    bit i of byte j of half h  ->  column 16h + 2i + (j & 1), row ROW_OF_PAIR[j >> 1]

With that order an 8x8 bit transpose across the plane registers yields bytes whose low and high unpack are
16-bit codes of rows 0-7 and rows 8-15, two neighbouring columns per 32-bit lane: what `vpmaddwd` wants.
Plane 0 holds the most significant bit; the first b planes are the b-bit code v = code >> (n - b).

A code stands for a weight in one of two ways (a *code book*). Affine: for the number code - zero; bits that
are not there count as their middle. Table: for entry v of a table of 2^b numbers, one table for each width b;
the scale is HALF, E8 or S6, and w = scale * table[v]. Tables belong to the format, or each matrix of each
block has *own tables* before its scales: those of b bits are the 2^b bytes, entry + 128, from byte 2^b on.

Scales ("meta") are strip-major too; one strip's bytes are contiguous (all little-endian):

    HALF      w = d * (code - zero)        per group: d f16[16]
    HALF_MIN  w = d * code + m             per group: d f16[16], m f16[16]
    K6        w = d*sc*code - dmin*mn      per 256 columns: d f16[16], dmin f16[16], then for each of the 8
                                           groups sc_lo u8[8], sc_hi u8[4], mn_lo u8[8], mn_hi u8[4] (6-bit
                                           values: row r has its low nibble in byte r//2 at bit 4*(r%2), its
                                           top two bits in byte r//4 at bit 2*(r%4))
    K8        w = d * sc * (code - zero)   per 256 columns: d f16[16], then for each of the 16 half groups
                                           sc i8[16]
    E8        w = 2^(e - 131) * table[v]   per group: e u8[16]
    S6        w = d * (sc - 32) * table[v] per 256 columns: d f16[16], then for each of the 8 groups
                                           sc_lo u8[8], sc_hi u8[4] (as in K6)
"""

from dataclasses import dataclass
from enum import IntEnum

STRIP_ROWS = 16
GROUP_COLS = 32
LINE_BYTES = 64
SUPER_COLS = 256
MAX_PLANES = 8
TABLE_ZERO = 128
E8_BIAS = 131
S6_BIAS = 32
# Row held by byte pair j // 2 of a half line (see the module's text).
ROW_OF_PAIR = (0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15)


class ScaleKind(IntEnum):
    """How the scales of a matrix are stored."""

    HALF = 0
    HALF_MIN = 1
    K6 = 2
    K8 = 3
    E8 = 4
    S6 = 5


_STRIP_META_BYTES_PER_256 = {
    ScaleKind.HALF: 256,
    ScaleKind.HALF_MIN: 512,
    ScaleKind.K6: 256,
    ScaleKind.K8: 288,
    ScaleKind.E8: 128,
    ScaleKind.S6: 128,
}


@dataclass(frozen=True)
class MatrixFormat:
    """One code book: `planes` bits per weight, codes offset by `zero`, scales stored as `kind`.

    With a `table` it says what the codes of all planes stand for: 2^planes integers of 8 bits that never
    fall. Kernels take them plus 128 as codes of eight bits, so `zero` is 128. Raises ValueError for others.
    """

    name: str
    planes: int
    zero: int
    kind: ScaleKind
    table: tuple[int, ...] = ()
    own_tables: bool = False
    """Every matrix brings its tables; `zero` is 128 then too."""

    def __post_init__(self) -> None:
        is_plain = self.kind in (ScaleKind.HALF, ScaleKind.E8, ScaleKind.S6)
        if self.own_tables and not (is_plain and self.zero == TABLE_ZERO and not self.table):
            raise ValueError(
                f"{self.name}: own tables need zero {TABLE_ZERO}, plain scales and no other table"
            )
        if not self.table:
            return
        is_byte = all(-TABLE_ZERO <= entry < TABLE_ZERO for entry in self.table)
        fits = len(self.table) == 1 << self.planes and self.zero == TABLE_ZERO
        if not (is_byte and fits and is_plain and list(self.table) == sorted(self.table)):
            raise ValueError(f"{self.name}: not a table of 2^{self.planes} rising bytes with plain scales")

    def table_at(self, width: int) -> tuple[int, ...]:
        """What the codes of `width` bits stand for: the rounded mean of all entries that begin so."""
        under = 1 << (self.planes - width)
        parts = (self.table[start : start + under] for start in range(0, len(self.table), under))
        return tuple(round(sum(part) / under) for part in parts)

    @property
    def scale_cols(self) -> int:
        """Columns that share one scale: 16 for K8, else 32."""
        return 16 if self.kind is ScaleKind.K8 else GROUP_COLS

    @property
    def col_multiple(self) -> int:
        """K must be a multiple of this: a super-block of 256 for K-quants, else one group of 32."""
        return SUPER_COLS if self.kind in (ScaleKind.K6, ScaleKind.K8, ScaleKind.S6) else GROUP_COLS


_IQ4_NL = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
"""ggml's values of the non-linear 4-bit types (`kvalues` of gguf-py's IQ4_NL)."""

_MXFP4 = (-96, -64, -48, -32, -24, -16, -8, 0, 0, 8, 16, 24, 32, 48, 64, 96)
"""16 times the values of the 4-bit floats e2m1, the least first (-0 is 0): their means are integers too."""

FORMATS: dict[str, MatrixFormat] = {
    f.name: f
    for f in (
        MatrixFormat("Q4_0", 4, 8, ScaleKind.HALF),
        MatrixFormat("Q4_1", 4, 0, ScaleKind.HALF_MIN),
        MatrixFormat("Q5_0", 5, 16, ScaleKind.HALF),
        MatrixFormat("Q5_1", 5, 0, ScaleKind.HALF_MIN),
        MatrixFormat("Q8_0", 8, 128, ScaleKind.HALF),
        MatrixFormat("Q3_K", 3, 4, ScaleKind.K8),
        MatrixFormat("Q4_K", 4, 0, ScaleKind.K6),
        MatrixFormat("Q5_K", 5, 0, ScaleKind.K6),
        MatrixFormat("Q6_K", 6, 32, ScaleKind.K8),
        MatrixFormat("IQ4_NL", 4, TABLE_ZERO, ScaleKind.HALF, _IQ4_NL),
        MatrixFormat("IQ4_XS", 4, TABLE_ZERO, ScaleKind.S6, _IQ4_NL),
        MatrixFormat("MXFP4", 4, TABLE_ZERO, ScaleKind.E8, _MXFP4),
        # Codes made from F32, F16 and BF16: absolute maximum of a group of 32 mapped to 127.
        MatrixFormat("G8", 8, 128, ScaleKind.HALF),
    )
}


OWN_FORMATS: dict[str, MatrixFormat] = {
    f"AP{planes}": MatrixFormat(f"AP{planes}", planes, TABLE_ZERO, ScaleKind.HALF, own_tables=True)
    for planes in range(1, MAX_PLANES + 1)
}
"""Any-precision codes: no type of GGUF has them."""


def format_named(name: str) -> MatrixFormat:
    """The format of that name, with own tables or without. Raises KeyError where there is none."""
    return OWN_FORMATS[name] if name in OWN_FORMATS else FORMATS[name]


@dataclass(frozen=True)
class MatrixShape:
    """A matrix of a block: N rows x K columns in one format."""

    rows: int
    cols: int
    format: MatrixFormat

    @property
    def strips(self) -> int:
        return -(-self.rows // STRIP_ROWS)

    @property
    def groups(self) -> int:
        return self.cols // GROUP_COLS

    @property
    def plane_bytes(self) -> int:
        return self.strips * self.groups * LINE_BYTES

    @property
    def strip_meta_bytes(self) -> int:
        return self.cols * _STRIP_META_BYTES_PER_256[self.format.kind] // SUPER_COLS

    @property
    def scale_bytes(self) -> int:
        return self.strips * self.strip_meta_bytes

    @property
    def tables_bytes(self) -> int:
        """Of own tables; the first two bytes are not used."""
        return 2 << self.format.planes if self.format.own_tables else 0

    @property
    def meta_bytes(self) -> int:
        """Of all that is no plane: scales and own tables."""
        return self.scale_bytes + self.tables_bytes


@dataclass(frozen=True)
class MatrixView:
    """A matrix and where its parts start in the block's own address space (bytes)."""

    shape: MatrixShape
    meta_offset: int
    """Of the scales; own tables lie before them."""
    plane_offsets: tuple[int, ...]
    tables_offset: int = -1
    """Where own tables start; -1 = there are none."""

    def strip(self, index: int) -> list[tuple[int, int]]:
        """(offset, bytes) of all that a strip has: its meta data, then its lines in each plane."""
        meta, lines = self.shape.strip_meta_bytes, self.shape.groups * LINE_BYTES
        planes = [(offset + index * lines, lines) for offset in self.plane_offsets]
        return [(self.meta_offset + index * meta, meta), *planes]


def _align(value: int, step: int) -> int:
    return -(-value // step) * step


@dataclass(frozen=True)
class BlockLayout:
    """The address space of one block: matrices that share their input (gate and up, or down; q, k and v).

        [ tables and meta of all matrices | floor planes of all ] pad [ plane f ] pad [ plane f + 1 ] pad ...

    The first part is the *floor extent*. It and every later plane start on a page, so a plane that is given
    up frees whole pages. `page_bytes` = 0 means one contiguous piece without padding (dense weights).
    """

    views: tuple[MatrixView, ...]
    planes: int
    floor_planes: int
    page_bytes: int
    extent_ends: tuple[int, ...]
    """End of the data of extent i (0 = floor extent, then one per droppable plane), before padding."""

    @property
    def rows(self) -> int:
        return sum(view.shape.rows for view in self.views)

    @property
    def cols(self) -> int:
        return self.views[0].shape.cols

    @property
    def span_bytes(self) -> int:
        """Bytes of the whole address space, padding included."""
        return _align(self.extent_ends[-1], self.page_bytes or LINE_BYTES)

    @property
    def data_bytes(self) -> int:
        """Bytes without padding: what counts as the block's size in `N %` budgets."""
        return sum(v.shape.meta_bytes + v.shape.plane_bytes * v.shape.format.planes for v in self.views)

    @property
    def page_count(self) -> int:
        return self.span_bytes // self.page_bytes if self.page_bytes else 1

    def extent(self, index: int) -> tuple[int, int]:
        """(start, end) of extent `index` in bytes; the end excludes padding."""
        start = 0 if index == 0 else _align(self.extent_ends[index - 1], self.page_bytes or LINE_BYTES)
        return start, self.extent_ends[index]

    def pages_at_width(self, width: int) -> int:
        """Pages that hold the first `width` planes (0 pages at width 0)."""
        if width <= 0:
            return 0
        end = self.extent_ends[max(0, min(width, self.planes) - self.floor_planes)]
        return _align(end, self.page_bytes) // self.page_bytes if self.page_bytes else 1


def block_layout(shapes: list[MatrixShape], *, page_bytes: int, floor_planes: int) -> BlockLayout:
    """Lay `shapes` (equal K) out as one block; `floor_planes` planes travel with the scales."""
    planes = max(shape.format.planes for shape in shapes)
    floor = planes if page_bytes == 0 else min(max(1, floor_planes), planes)
    step = page_bytes or LINE_BYTES
    position, metas, tables = 0, [], []
    for shape in shapes:
        tables.append(position if shape.format.own_tables else -1)
        position = _align(position + shape.tables_bytes, LINE_BYTES)
        metas.append(position)
        position = _align(position + shape.scale_bytes, LINE_BYTES)
    offsets: list[list[int]] = [[] for _ in shapes]
    ends: list[int] = []
    for plane in range(planes):
        if plane >= floor:
            position = _align(position, step)
        for i, shape in enumerate(shapes):
            if plane < shape.format.planes:
                offsets[i].append(position)
                position += shape.plane_bytes
        if plane >= floor - 1:
            ends.append(position)
    views = tuple(
        MatrixView(shape, meta, tuple(planes_at), tables_at)
        for shape, meta, planes_at, tables_at in zip(shapes, metas, offsets, tables, strict=True)
    )
    return BlockLayout(views, planes, floor, page_bytes, tuple(ends))
