"""Compares what kernels wrote with what is right, within bounds: many cases, one row of the table."""

from types import TracebackType

import torch

from tests.gpu.ground import Ground, failure


class Judge:
    """`with Judge(ground, "rmsnorm") as judge:` tells one row: the worst difference as a share of its bound.

    Something wrong in one case is that row's failure.
    """

    def __init__(self, ground: Ground, case: str) -> None:
        self._ground, self._case = ground, case
        self._worst, self._count = 0.0, 0
        self._problems: list[str] = []

    def __enter__(self) -> "Judge":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            if isinstance(error, Exception):
                self._ground.tell(failure(self._ground.part, self._case, error))
            return isinstance(error, Exception)
        note = f"{len(self._problems)} wrong, first: {self._problems[0]}" if self._problems else ""
        passed = not self._problems and self._count > 0
        self._ground.row(
            f"{self._case} ({self._count})", self._worst, "of bound", goal="<= 1", passed=passed, note=note
        )
        return False

    def near(self, what: str, got: torch.Tensor, exact: torch.Tensor, bound: torch.Tensor | float) -> None:
        """Every number of `got` is finite and within `bound` of `exact`."""
        self._count += 1
        difference = (got.cpu().double() - exact.cpu().double()).abs()
        limit = torch.as_tensor(bound, dtype=torch.float64).cpu().expand_as(difference)
        share = torch.where(difference == 0, 0.0, difference / limit)
        worst = float(share.max())
        if worst <= 1 and bool(torch.isfinite(share).all()):
            self._worst = max(self._worst, worst)
            return
        at = tuple(int(i) for i in torch.unravel_index(share.nan_to_num(torch.inf).argmax(), share.shape))
        self._problems.append(f"{what} at {at}: {got[at].item():.6g}, not {exact[at].item():.6g}")
        self._worst = max(self._worst, worst)

    def same(self, what: str, got: torch.Tensor, wanted: torch.Tensor) -> None:
        """Bit for bit; NaN is itself."""
        self._count += 1
        got, wanted = got.cpu(), wanted.cpu()
        if got.dtype == torch.float32:
            got, wanted = got.contiguous().view(torch.int32), wanted.contiguous().view(torch.int32)
        if got.shape != wanted.shape or not torch.equal(got, wanted):
            self._problems.append(f"{what}: not the same bits")

    def true(self, what: str, holds: bool) -> None:
        """Anything else."""
        self._count += 1
        if not holds:
            self._problems.append(what)
