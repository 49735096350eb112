"""Integrity tags: does every page that a request will read carry the tag it expects?"""

import torch
import triton
import triton.language as tl

TILE = 512


def check_tags(
    tags: torch.Tensor,
    page_ids: torch.Tensor,
    expected: torch.Tensor,
    requests: torch.Tensor,
    bad: torch.Tensor,
    faults: torch.Tensor,
) -> None:
    """bad[i] = 1 where page page_ids[i] does not carry expected[i], else 0; each adds 1 to its request's
    faults.

    tags i64 [pages]: what every page carries now. page_ids i32, expected i64, requests i32, bad u8 [N];
    faults i32 [R]. A page that does not exist carries no tag. `bad` says which pages to look into after
    `faults` has said that there are any: reading the two back takes one small copy while all is well.
    """
    count = len(page_ids)
    assert len(expected) == len(requests) == len(bad) == count
    assert all(t.is_contiguous() for t in (tags, page_ids, expected, requests, bad, faults))
    if count:
        tags_kernel[(triton.cdiv(count, TILE),)](
            tags, page_ids, expected, requests, bad, faults, len(tags), count, TILE=TILE, num_warps=4
        )


@triton.jit
def tags_kernel(tags, page_ids, expected, requests, bad, faults, page_count, count, TILE: tl.constexpr):
    """Program t compares pairs TILE t ..."""
    pair = tl.program_id(0) * TILE + tl.arange(0, TILE)
    live = pair < count
    page = tl.load(page_ids + pair, mask=live, other=0)
    exists = (page >= 0) & (page < page_count)
    carried = tl.load(tags + page, mask=live & exists, other=0)
    wanted = tl.load(expected + pair, mask=live, other=0)
    is_bad = live & ((carried != wanted) | ~exists)
    tl.store(bad + pair, is_bad.to(tl.uint8), mask=live)
    if tl.sum(is_bad.to(tl.int32), axis=0) > 0:
        request = tl.load(requests + pair, mask=is_bad, other=0)
        tl.atomic_add(faults + request, tl.full([TILE], 1, tl.int32), mask=is_bad)
