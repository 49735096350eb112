"""What NVML says about a card's memory: of the whole card, other programs included, without a context.

NVML does not know CUDA_VISIBLE_DEVICES and numbers cards its own way, so a card is found by its UUID. Every
figure may be missing (WSL2, WDDM, MIG without permission) or wrong, and then is None: never a guess.
"""

import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class NvmlMemory:
    """Bytes; None = NVML does not say, or says something impossible."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    own_bytes: int | None = None
    """Of this process."""
    others_bytes: int | None = None
    """Of all other programs, where the driver tells for each of them."""
    problem: str = ""
    """Why figures are missing; empty when none is."""


class Nvml:
    """The library, initialised once. `module` is pynvml, or something that looks like it."""

    def __init__(self, module: Any = None) -> None:
        self._nvml, self.problem = module, ""
        try:
            if self._nvml is None:
                import pynvml

                self._nvml = pynvml
            self._nvml.nvmlInit()
        except ImportError:
            self.problem = "nvidia-ml-py is not installed"
        except Exception as error:  # NVMLError is made at run time, one class per code
            self.problem = str(error)

    def memory(self, uuid: str) -> NvmlMemory:
        """Memory of the card, or MIG instance, with this UUID (as in `Card.uuid`)."""
        if self.problem:
            return NvmlMemory(problem=self.problem)
        try:
            handle = self._handle(uuid)
            found = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            total, free = int(found.total), int(found.free)
        except Exception as error:
            return NvmlMemory(problem=str(error))
        if not 0 <= free <= total or total == 0:
            return NvmlMemory(problem=f"NVML reports {free} of {total} bytes free, which cannot be")
        own, others, problem = self._by_process(handle, total)
        return NvmlMemory(total, free, own, others, problem)

    def _handle(self, uuid: str) -> Any:
        try:
            return self._nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
        except Exception:
            return self._nvml.nvmlDeviceGetHandleByUUID(f"MIG-{uuid}")

    def _by_process(self, handle: Any, total: int) -> tuple[int | None, int | None, str]:
        """(own, others, problem). A sum over programs counts only if each of them has a possible figure."""
        found: dict[int, Any] = {}
        try:
            for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
                found.update(
                    {process.pid: process.usedGpuMemory for process in getattr(self._nvml, name)(handle)}
                )
        except Exception as error:
            return None, None, f"NVML does not list programs: {error}"
        used = {pid: size for pid, size in found.items() if isinstance(size, int) and 0 <= size <= total}
        own = used.get(os.getpid())
        if len(used) < len(found):
            return own, None, "NVML does not say what each program holds"
        return own, sum(size for pid, size in used.items() if pid != os.getpid()), ""
