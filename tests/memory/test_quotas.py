"""What each layer may keep, for experts of one size and of different sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.engine.memory.quotas import even_quotas


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(1, 16),
    st.integers(0, 3000),
)
def test_quotas_fit_and_grow_with_capacity(pages: list[int], experts: int, extra: int) -> None:
    capacity = sum(pages) + extra
    found = even_quotas(capacity, np.repeat(np.array(pages)[:, None], experts, axis=1))
    quotas = [quota.slots for quota in found]
    assert [quota.pages for quota in found] == [n * size for n, size in zip(quotas, pages, strict=True)]
    used = sum(quota * size for quota, size in zip(quotas, pages, strict=True))
    assert used <= capacity
    assert all(1 <= quota <= experts for quota in quotas)
    assert max(quotas) - min(quotas) <= 1
    left = [size for quota, size in zip(quotas, pages, strict=True) if quota == min(quotas) < experts]
    assert not left or max(quotas) == min(quotas) + 1 or capacity - used < max(left)


@st.composite
def mixed_sizes(draw: st.DrawFn) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    layers, experts = draw(st.integers(1, 6)), draw(st.integers(1, 9))
    sizes = draw(st.lists(st.integers(1, 20), min_size=layers * experts, max_size=layers * experts))
    return np.array(sizes, np.int64).reshape(layers, experts)


@given(mixed_sizes(), st.integers(0, 900))
def test_experts_of_different_sizes_never_exceed_capacity(
    sizes: np.ndarray[tuple[int, int], np.dtype[np.int64]], extra: int
) -> None:
    capacity = int(sizes.max(axis=1).sum()) + extra
    quotas = even_quotas(capacity, sizes)
    assert sum(quota.pages for quota in quotas) <= capacity
    for own, quota in zip(sizes, quotas, strict=True):
        largest = np.sort(own)[::-1][: quota.slots]
        assert quota.pages == largest.sum(), "so many experts fit, whichever they are"
        assert own.max() <= quota.pages <= own.sum()
    assert all(quota.slots == sizes.shape[1] for quota in quotas) or capacity < sizes.sum()


def test_where_all_fit_every_layer_has_room_for_all() -> None:
    sizes = np.array([[3, 9, 1], [2, 2, 8]])
    assert [quota.pages for quota in even_quotas(25, sizes)] == [13, 12]
    assert [quota.pages for quota in even_quotas(24, sizes)] == [13, 10]


def test_quotas_below_the_floor() -> None:
    with pytest.raises(ValueError, match="fewer"):
        even_quotas(29, np.array([[10] * 4, [20] * 4]))
    with pytest.raises(ValueError, match=r"fewer than one expert per layer \(17\)"):
        even_quotas(16, np.array([[3, 9, 1], [2, 2, 8]]))
