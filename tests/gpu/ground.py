"""What a part of the check stands on: a real card, or one in the process's own memory; and where rows go."""

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.gpu.rows import Row

if TYPE_CHECKING:
    import torch

    from ebbtide.engine.device.driver import CudaDriver
    from ebbtide.engine.device.place import Place
    from tests.helpers.host_card import HostCard

LONGEST_NOTE = 160


class Ground:
    """One part's, in the part's own process. `deadline` is of `time.monotonic`."""

    def __init__(
        self, part: str, emit: Callable[[Row], None], *, dry: bool, seed: int, deadline: float, folder: Path
    ) -> None:
        self.part, self.tell, self.dry, self.seed, self.folder = part, emit, dry, seed, folder
        self._deadline = deadline
        self.warms = False
        """Nothing is measured: kernels are compiled for a later part."""
        self._host_card: HostCard | None = None

    @property
    def device(self) -> "torch.device":
        """Where the kernels' tensors are."""
        import torch

        return torch.device("cpu" if self.dry else "cuda")

    @property
    def left_s(self) -> float:
        """Seconds that this part still has."""
        return self._deadline - time.monotonic()

    def row(
        self,
        case: str,
        figure: float | None = None,
        unit: str = "",
        *,
        goal: str = "",
        passed: bool | None = None,
        note: str = "",
    ) -> None:
        """Tell a figure."""
        self.tell(Row(self.part, case, figure, unit, goal, passed, note))

    @contextmanager
    def case(self, name: str) -> Iterator[None]:
        """What fails inside is a row of the table, and the next case goes on."""
        try:
            yield
        except Exception as error:
            self.tell(failure(self.part, name, error))

    def wait(self) -> None:
        """Return when the card has done all that was launched."""
        import torch

        if not self.dry:
            torch.cuda.synchronize()

    def driver(self) -> "CudaDriver":
        """The card's driver, in a dry run that of a card in Python."""
        from ebbtide.engine.device.driver import CudaDriver

        return CudaDriver(self.host_card().library.opener()) if self.dry else CudaDriver()

    def host_card(self) -> "HostCard":
        """The card of a dry run."""
        from tests.helpers.host_card import HostCard

        self._host_card = self._host_card or HostCard(self.seed)
        return self._host_card

    def find_place(self, wish: str, *how: Any) -> "tuple[Place | None, str]":
        """`engine.device.place.find_place`, in a dry run with a card that is always there."""
        if self.dry:
            return self.host_card().find(wish, *how)
        from ebbtide.engine.device.place import find_place

        return find_place(wish, *how)


def failure(part: str, case: str, error: BaseException) -> Row:
    """A row about an exception: its last line for the table, all of it for the JSON."""
    trace = "".join(traceback.format_exception(error))
    last = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    return Row(part, case, passed=False, note=last[:LONGEST_NOTE], trace=trace)
