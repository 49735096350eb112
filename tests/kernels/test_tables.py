"""Formats with tables: what a code stands for at every width, and what is no table."""

import numpy as np
import pytest

from ebbtide.kernels.layout import FORMATS, TABLE_ZERO, MatrixFormat, ScaleKind
from tests.helpers.formats import KERNEL_FORMATS, TABLE_8

TABLES = [form for form in KERNEL_FORMATS.values() if form.table]


@pytest.mark.parametrize("form", TABLES, ids=lambda form: form.name)
def test_a_narrower_table_has_the_means_of_the_whole_one(form: MatrixFormat) -> None:
    whole = np.array(form.table)
    assert form.table_at(form.planes) == form.table
    for width in range(1, form.planes + 1):
        table = np.array(form.table_at(width))
        means = whole.reshape(1 << width, -1).mean(axis=1)
        assert (np.abs(table - means) <= 0.5).all() and (np.diff(table) >= 0).all()


def test_what_is_no_table_is_refused() -> None:
    good = FORMATS["IQ4_NL"]
    for kind in (ScaleKind.HALF, ScaleKind.E8, ScaleKind.S6):
        assert MatrixFormat("it", 4, TABLE_ZERO, kind, good.table).table == good.table
    wrong: list[tuple[int, int, ScaleKind, tuple[int, ...]]] = [
        (5, TABLE_ZERO, ScaleKind.HALF, good.table),
        (4, 8, ScaleKind.HALF, good.table),
        (4, TABLE_ZERO, ScaleKind.HALF_MIN, good.table),
        (4, TABLE_ZERO, ScaleKind.K8, good.table),
        (4, TABLE_ZERO, ScaleKind.HALF, good.table[::-1]),
        (4, TABLE_ZERO, ScaleKind.HALF, (*good.table[:-1], 128)),
        (8, TABLE_ZERO, ScaleKind.HALF, TABLE_8.table[1:]),
    ]
    for planes, zero, kind, table in wrong:
        with pytest.raises(ValueError, match="it: not a table"):
            MatrixFormat("it", planes, zero, kind, table)
