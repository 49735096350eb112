"""The CUDA driver through ctypes: which cards there are, and memory that really goes back.

torch's allocator keeps what it has freed, so a slab is taken from the driver itself, in the primary context,
which is the one torch uses too: once freed, every other program can have it. Function names end in `_v2`
where the driver's header renames them.
"""

import ctypes
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

LIBRARIES = (
    ("nvcuda.dll",)
    if sys.platform == "win32"
    else ("libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1")
)

OUT_OF_MEMORY = 2
NO_DEVICE = 100
_UUID_BYTES = 16
_NAME_BYTES = 256
_CAPABILITY_MAJOR, _CAPABILITY_MINOR, _INTEGRATED = 75, 76, 18


class DriverError(Exception):
    """A call the driver refused. `code` is its CUresult; 0 where there is no driver to ask."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code

    @property
    def out_of_memory(self) -> bool:
        return self.code == OUT_OF_MEMORY


@dataclass(frozen=True)
class Card:
    """One CUDA device as the driver numbers it (what torch calls cuda:`index`)."""

    index: int
    name: str
    uuid: str
    """Of the card, or of the MIG instance, as 8-4-4-4-12 hexadecimal digits."""
    capability: tuple[int, int]
    """Compute capability: (8, 6) is sm_86."""
    total_bytes: int
    integrated: bool
    """Shares its memory with the processor."""


class CudaDriver:
    """The loaded and initialised library. Raises DriverError where there is none, or it does not start."""

    def __init__(self, open_library: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._library = _open(open_library)
        self._context = ctypes.c_void_p()
        self._threads = threading.local()
        self.call("cuInit", 0)

    @property
    def version(self) -> tuple[int, int]:
        """The newest CUDA that this driver runs, as (major, minor)."""
        found = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(found))
        return found.value // 1000, found.value % 1000 // 10

    def cards(self) -> list[Card]:
        """Every device this process may use (CUDA_VISIBLE_DEVICES is obeyed by the driver)."""
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return [self._card(index) for index in range(count.value)]

    def _card(self, index: int) -> Card:
        device = self._device(index)
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self.call("cuDeviceGetName", name, _NAME_BYTES, device)
        total = ctypes.c_size_t()
        self.call("cuDeviceTotalMem_v2", ctypes.byref(total), device)
        return Card(
            index=index,
            name=name.value.decode("utf-8", "replace"),
            uuid=self._uuid(device),
            capability=(
                self._attribute(_CAPABILITY_MAJOR, device),
                self._attribute(_CAPABILITY_MINOR, device),
            ),
            total_bytes=total.value,
            integrated=bool(self._attribute(_INTEGRATED, device)),
        )

    def _uuid(self, device: ctypes.c_int) -> str:
        raw = (ctypes.c_ubyte * _UUID_BYTES)()
        # The first names the MIG instance, not its card; drivers before 11.4 have only the second.
        has_newer = hasattr(self._library, "cuDeviceGetUuid_v2")
        self.call("cuDeviceGetUuid_v2" if has_newer else "cuDeviceGetUuid", raw, device)
        digits = bytes(raw).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _attribute(self, attribute: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        return value.value

    def _device(self, index: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), index)
        return device

    # --- one card's memory

    def use(self, index: int) -> None:
        """Make a card's primary context (some hundred MB of its memory, once) this thread's current one."""
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device(index))
        self._threads = threading.local()
        self.attach()

    def attach(self) -> None:
        """Make the context that `use` made the calling thread's too: each has its own, and begins without."""
        if not hasattr(self._threads, "is_attached"):
            self.call("cuCtxSetCurrent", self._context)
            self._threads.is_attached = True

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes of the current context's device; free counts what other programs hold."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, nbytes: int) -> int:
        """Address of `nbytes` of device memory, aligned to 256 bytes at least."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(nbytes))
        return address.value

    def free(self, address: int) -> None:
        """Give memory back to the driver. Waits for all work on the device, so: between steps only."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def allocate_pinned(self, nbytes: int) -> int:
        """Address of `nbytes` of host memory that copies use directly; it has a quota (WSL: half of RAM)."""
        address = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(nbytes), 0)
        return address.value or 0

    def free_pinned(self, address: int) -> None:
        """Give pinned memory back."""
        self.call("cuMemFreeHost", ctypes.c_void_p(address))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library. Raises DriverError where it returns anything but success."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise DriverError(f"{name}: {self._explain(code)}", code)

    def _explain(self, code: int) -> str:
        text = ctypes.c_char_p()
        if self._library.cuGetErrorString(code, ctypes.byref(text)) or not text.value:
            return f"error {code}"
        return f"{text.value.decode('utf-8', 'replace')} (error {code})"


def _open(open_library: Callable[[str], Any]) -> Any:
    problem = ""
    for name in LIBRARIES:
        try:
            return open_library(name)
        except OSError as error:
            problem = problem or str(error)
    raise DriverError(f"there is no NVIDIA driver ({problem})")
