"""How fast this machine reads memory: the yardstick for decode speed."""

import threading
import time

BUFFER_BYTES = 256 << 20
REPEATS = 3


def measure_stream_rate(threads: int) -> float:
    """Bytes per second that `threads` threads read together from far more than caches hold; best of three."""
    import numpy as np

    buffer = np.ones(BUFFER_BYTES // 8, dtype=np.int64)
    parts = np.array_split(buffer, max(threads, 1))

    def once() -> float:
        workers = [threading.Thread(target=part.sum) for part in parts]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return BUFFER_BYTES / (time.perf_counter() - start)

    return max(once() for _ in range(REPEATS))
