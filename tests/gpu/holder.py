"""The second process: takes memory of the card, says so, and holds it until its input ends."""

import sys

MINE = "ready"


def hold(nbytes: int, *, dry: bool) -> int:
    """In a dry run it only says so."""
    if not dry:
        from ebbtide.engine.device.driver import CudaDriver

        driver = CudaDriver()
        driver.use(0)
        driver.allocate(nbytes)
    print(MINE, flush=True)
    sys.stdin.read()
    return 0
