"""Sentences of the event log say nothing that contradicts itself."""

import pytest

from ebbtide.engine import decisions

MIB = 1 << 20


def test_what_gave_way_is_told_with_the_bytes_that_it_left() -> None:
    grew = decisions.kv_grew((100, 200), MIB, [0, 2, 1], (200 * MIB, 198 * MIB))
    assert grew.sentence == (
        "Context 100 → 200: KV +1.0 MiB, 3 experts gave way (L01\N{EN DASH}L02), experts 200 MiB → 198 MiB"
    )


def test_where_others_came_in_meanwhile_their_sum_says_nothing() -> None:
    grew = decisions.kv_grew((100, 200), MIB, [0, 1], (202 * MIB, 203 * MIB))
    assert grew.sentence == "Context 100 → 200: KV +1.0 MiB, 1 expert gave way (L01)"


@pytest.mark.parametrize(
    ("bits", "words"), [((5.0, 4.5), "on average 5.00 → 4.50 bits"), ((4.134, 4.131), "still 4.13 bits")]
)
def test_an_average_that_stays_the_same_is_told_once(bits: tuple[float, float], words: str) -> None:
    assert words in decisions.widths_changed((1, 1), 240, bits, MIB).sentence
