"""Integrity tags: every wrong page is found, charged to the request that would have read it."""

import numpy as np

from ebbtide.kernels.reference.tags import check_tags


def test_mismatches_are_charged_to_their_request() -> None:
    tags = np.array([11, 1 << 40, 13, 0], np.int64)
    page_ids = np.array([0, 1, 1, 2, -1, 4, 3, 0], np.int32)
    expected = np.array([11, 1 << 40, (1 << 40) + 1, 12, 0, 0, 0, 11], np.int64)
    requests = np.array([0, 0, 1, 1, 2, 2, 2, 2], np.int32)
    bad, faults = np.full(8, 7, np.uint8), np.array([0, 1, 0], np.int32)
    check_tags(tags, page_ids, expected, requests, bad, faults)
    assert bad.tolist() == [0, 0, 1, 1, 1, 1, 0, 0] and faults.tolist() == [0, 3, 2]


def test_nothing_to_check() -> None:
    faults = np.zeros(1, np.int32)
    pages, tags = np.empty(0, np.int32), np.empty(0, np.int64)
    check_tags(tags, pages, tags, pages, np.empty(0, np.uint8), faults)
    assert faults.tolist() == [0]
