"""A card that a model is put on: its memory, its two queues, and torch's view of both."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ebbtide.engine.device.card import CudaCard
from ebbtide.engine.device.card_memory import CardMemory, card_memory
from ebbtide.engine.device.choice import choose_device
from ebbtide.engine.device.driver import Card, CudaDriver
from ebbtide.engine.device.emulate import Emulation
from ebbtide.engine.device.nvml import Nvml
from ebbtide.engine.errors import FitError
from ebbtide.engine.memory.budget import headroom_bytes

if TYPE_CHECKING:
    from ebbtide.engine.device.tensors import TensorMemory
    from ebbtide.engine.device.torch_side import TorchSide


@dataclass(frozen=True)
class Place:
    """One model's; made anew for the next one."""

    card: Card
    lanes: CudaCard
    side: "TorchSide"
    tensors: "TensorMemory"
    total_bytes: int
    free_bytes: int
    overhead_bytes: int
    """What the driver and torch hold already on behalf of this process; 0 where nobody says."""
    own_bytes: Callable[[], int | None]
    """What the driver says that this process holds now."""
    memory_now: Callable[[], CardMemory]
    """Of the whole card; may be asked by any thread."""
    notice: str

    @property
    def room_bytes(self) -> int:
        """What may be taken beside what is held already: not all that is free."""
        return max(0, self.free_bytes - headroom_bytes(self.total_bytes))

    def close(self) -> None:
        """Give all memory back to the driver. No tensor may be used after this."""
        self.lanes.close()


def find_place(wish: str) -> tuple[Place | None, str]:
    """(the place that `--device` names, or None for the processor; why a card that is there is not used).

    Imports torch only where there is a card. Raises UsageError, see `choose_device`, and FitError.
    """
    choice = choose_device(wish, _probe)
    if choice.card is None:
        return None, choice.notice
    from ebbtide.engine.device.torch_side import CudaSide

    driver = CudaDriver()
    driver.use(choice.card.index)
    return open_place(choice.card, driver, CudaSide(choice.card.index), Nvml(), choice.notice), ""


def emulated(place: Place, emulation: Emulation) -> Place:
    """The same place on what looks like a smaller card, or one in a slower slot."""
    if emulation.pcie_bytes_per_s is not None:
        place.lanes.pace(emulation.least_seconds, place.side)
    free = emulation.free_bytes(place.total_bytes, place.free_bytes)
    notice = " ".join(part for part in (emulation.sentence, place.notice) if part)
    return replace(
        place,
        total_bytes=emulation.card_bytes(place.total_bytes),
        free_bytes=free,
        memory_now=lambda: emulation.seen(place.memory_now()),
        notice=notice,
    )


def open_place(card: Card, driver: CudaDriver, side: "TorchSide", nvml: Nvml, notice: str = "") -> Place:
    """The parts of a card whose context is this thread's. Raises FitError where its memory is unknown."""
    from ebbtide.engine.device.tensors import TensorMemory

    def memory_now() -> CardMemory:
        driver.attach()
        return card_memory(card, nvml.memory(card.uuid), driver.memory)

    memory = memory_now()
    if memory.free_bytes is None:
        raise FitError(
            f"Nobody says how much memory of {card.name} is free.",
            hint="Use --device cpu, and tell your driver's vendor.",
        )
    lanes = CudaCard(driver, side.stream_handle, side.scatter)
    return Place(
        card=card,
        lanes=lanes,
        side=side,
        tensors=TensorMemory(lanes.device, side.wrap),
        total_bytes=memory.total_bytes,
        free_bytes=memory.free_bytes,
        overhead_bytes=memory.own_bytes or 0,
        own_bytes=lambda: nvml.memory(card.uuid).own_bytes,
        memory_now=memory_now,
        notice=" ".join(part for part in (notice, memory.notice) if part),
    )


def _probe(card: Card) -> None:
    """See `Probe`."""
    from ebbtide.engine.device.probe import probe_card

    probe_card(card)
