"""How llama.cpp may be set up, the strongest first; the next one is tried where one does not work."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Configuration:
    """`parameters`: fields of `llama_model_params` that differ from llama.cpp's own defaults.

    A load mode goes by its name in llama.h, without `LLAMA_LOAD_MODE_`.
    """

    name: str
    parameters: dict[str, Any]


CONFIGURATIONS = (
    Configuration("default", {}),
    # Extra buffers hold weights repacked for the processor: a copy in memory of its own, which some builds
    # crash on where there are matrix units, and which a memory limit may not hold.
    Configuration("no extra buffers, mmap", {"use_extra_bufts": False, "load_mode": "MMAP"}),
    Configuration("no extra buffers, no mmap", {"use_extra_bufts": False, "load_mode": "NONE"}),
)
