"""How long work on a card takes: by its own clock, eagerly or as a recorded graph."""

import statistics
import time
from collections.abc import Callable

import torch

from tests.gpu.ground import Ground

Call = Callable[[], object]


def seconds(ground: Ground, call: Call, rounds: int = 15) -> float:
    """Median time of a call, kernels of earlier calls being done; one call to warm up. Dry: of one call."""
    if ground.dry:
        return _once(ground, call)
    call()
    ground.wait()
    return statistics.median(_once(ground, call) for _ in range(rounds))


def _once(ground: Ground, call: Call) -> float:
    if ground.dry:
        began = time.perf_counter()
        call()
        return max(time.perf_counter() - began, 1e-9)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def graphed(ground: Ground, call: Call) -> Call:
    """The same launches as one graph; in a dry run the call itself."""
    if ground.dry:
        return call
    call()  # compiles what is not compiled yet
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def copy_rate(ground: Ground) -> float:
    """Bytes a second that a copy within the card reads and writes: what other rates are a share of."""
    size = 1 << 16 if ground.dry else min(1 << 30, free_bytes(ground) // 4)
    source = torch.zeros(size, dtype=torch.uint8, device=ground.device)
    target = torch.empty_like(source)
    return 2 * size / seconds(ground, lambda: target.copy_(source), 30)


def free_bytes(ground: Ground) -> int:
    """Of the card's memory."""
    return 1 << 24 if ground.dry else int(torch.cuda.mem_get_info()[0])


def cache_bytes(ground: Ground) -> int:
    """The card's second-level cache."""
    return 1 << 10 if ground.dry else int(torch.cuda.get_device_properties(0).L2_cache_size)
