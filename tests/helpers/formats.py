"""The formats that the kernels are tested with: those of files, and a table of eight planes."""

import numpy as np

from ebbtide.kernels.layout import FORMATS, TABLE_ZERO, MatrixFormat, ScaleKind


def _table() -> tuple[int, ...]:
    """256 rising bytes, some of them equal; the least and the greatest are the outermost there are."""
    between = np.random.default_rng(8).integers(-128, 128, 254)
    return (-128, *sorted(int(entry) for entry in between), 127)


TABLE_8 = MatrixFormat("TABLE_8", 8, TABLE_ZERO, ScaleKind.HALF, _table())
KERNEL_FORMATS = {**FORMATS, TABLE_8.name: TABLE_8}
CARD_FORMATS = {name: form for name, form in FORMATS.items() if not form.table}
"""Those that the kernels of a card know."""
