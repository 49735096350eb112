"""Prompts are cut into chunks of nearly equal length, and no chunk is a small rest."""

import pytest

from ebbtide.engine.prefill_chunks import chunk_end


def chunks(start: int, end: int, most: int) -> list[int]:
    sizes = []
    while start < end:
        sizes.append(chunk_end(start, end, most) - start)
        start += sizes[-1]
    return sizes


@pytest.mark.parametrize(
    ("start", "end", "sizes"),
    [
        (0, 1, [1]),
        (0, 520, [520]),
        (0, 576, [576]),
        (0, 577, [289, 288]),
        (0, 2048, [512] * 4),
        (500, 1100, [300, 300]),  # behind a cached prefix that ends anywhere
        (7, 8, [1]),
    ],
)
def test_a_prompt_is_cut_into_equal_parts(start: int, end: int, sizes: list[int]) -> None:
    assert chunks(start, end, 576) == sizes


@pytest.mark.parametrize("most", [1, 2, 256, 576])
def test_chunks_hold_everything_and_none_is_a_small_rest(most: int) -> None:
    for end in range(1, 1300):
        sizes = chunks(0, end, most)
        assert sum(sizes) == end and max(sizes) <= most
        assert max(sizes) - min(sizes) <= 1
