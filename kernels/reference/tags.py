"""Integrity tags as the specification: does every page that a request will read carry the tag it expects?

A tag is the serial number of a page's allocation, never used twice: it catches a page that was freed too
early, a wrong table and a stale upload (not wrong bytes, which only a checksum shows).
"""

import numpy as np
from numpy.typing import NDArray

from ebbtide.kernels.ops import I32, U8

I64 = NDArray[np.int64]


def check_tags(tags: I64, page_ids: I32, expected: I64, requests: I32, bad: U8, faults: I32) -> None:
    """bad[i] = 1 where page page_ids[i] does not carry expected[i], else 0; each adds 1 to its request's
    faults.

    tags [pages]: what every page carries now. page_ids, expected, requests, bad [N]; faults [R]. A page that
    does not exist carries no tag.
    """
    exists = (page_ids >= 0) & (page_ids < len(tags))
    carried = tags[np.where(exists, page_ids, 0)]
    bad[:] = ~(exists & (carried == expected))
    np.add.at(faults, requests, bad)
