"""A card at the start: one real kernel, whose numbers are compared with the processor's."""

from typing import TYPE_CHECKING

import numpy as np

from ebbtide.engine.device.choice import Unusable
from ebbtide.engine.device.driver import Card

if TYPE_CHECKING:
    from ebbtide.engine.device.torch_side import TorchSide

ROWS, COLS = 48, 96
TOLERANCE = 1e-5
"""Of the largest product: a hundred sums in 32 bits stay far below it, a wrong plane far above."""


def probe_card(card: Card) -> None:
    """Raise Unusable, saying what to install, unless a product with planes comes out right on `card`."""
    try:
        import torch
        import triton  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise Unusable(f"{error.name} is not installed", "Install it: pip install torch triton.") from error
    if torch.version.cuda is None:
        raise Unusable(
            "the torch that is installed was built for the processor only",
            "Install torch from the usual index (pip install --force-reinstall torch), or use --device cpu.",
        )
    try:
        from ebbtide.engine.device.torch_side import CudaSide

        try_product(CudaSide(card.index))
        torch.cuda.empty_cache()
    except Unusable:
        raise
    except Exception as error:
        what = str(error).strip().splitlines()
        raise Unusable(
            f"a test kernel on {card.name} failed ({what[0] if what else type(error).__name__})"
        ) from error


def try_product(side: "TorchSide") -> None:
    """Multiply a small random plane matrix on the card. Raises Unusable for wrong numbers."""
    import torch

    from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
    from ebbtide.kernels.ops import HUGE_PAGE_BYTES, BlockTable, Pages, contiguous_table
    from ebbtide.kernels.reference.linear import linear as exact_linear
    from ebbtide.kernels.triton.arrange import arrange, arranged_shape
    from ebbtide.kernels.triton.linear import linear
    from ebbtide.kernels.triton.tables import device_table

    layout = block_layout([MatrixShape(ROWS, COLS, FORMATS["Q8_0"])], page_bytes=0, floor_planes=1)
    rng = np.random.default_rng(0)
    block = rng.integers(0, 256, layout.span_bytes, np.uint8)
    scales = layout.views[0].shape.meta_bytes
    block[:scales] = rng.uniform(0.01, 0.02, scales // 2).astype(np.float16).view(np.uint8)
    x = rng.standard_normal((1, COLS)).astype(np.float32)
    expected = np.empty((1, ROWS), np.float32)
    exact_linear(x, contiguous_table(layout, block), expected)
    there = torch.from_numpy(block).to(side.device)
    pages = Pages(np.array([there.data_ptr()], np.uint64), 1, HUGE_PAGE_BYTES)
    table = BlockTable(layout, pages, np.zeros((1, 1), np.int32), np.array([layout.planes], np.uint8))
    arranged = torch.empty(arranged_shape(1, COLS), device=side.device)
    out = torch.zeros((1, ROWS), device=side.device)
    fault = torch.zeros(1, dtype=torch.int32, device=side.device)
    source, mirror = torch.from_numpy(x).to(side.device), device_table(table, side.device)

    def launch() -> None:
        arrange(source, arranged)
        linear(arranged, mirror, out, fault)

    side.stream.add(launch)
    side.stream.wait()
    worst = float(np.abs(out.cpu().numpy() - expected).max())
    if not worst <= TOLERANCE * float(np.abs(expected).max()):
        raise Unusable("a test kernel gave wrong numbers")
