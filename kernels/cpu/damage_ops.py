"""How much of a block lies at each code, by the compiled library (`kernels/code_mass.py` says what for)."""

import ctypes

import numpy as np

from ebbtide.kernels.code_mass import F64, CodeMass, check_moments, energy_of
from ebbtide.kernels.cpu.block import native_block
from ebbtide.kernels.cpu.library import Handle, address, check
from ebbtide.kernels.layout import MAX_PLANES, MatrixFormat
from ebbtide.kernels.ops import F32, BlockTable

_POINTER = ctypes.c_void_p


class DamageOps(Handle):
    """`code_mass` on one instruction set with a fixed number of threads. It brings its own workspace.

    Results have the same bits on every instruction set and with any number of threads.
    """

    def __init__(self, isa: str, threads: int, spin_us: int = 0) -> None:
        super().__init__(isa, threads, spin_us)
        lib = self.library
        lib.eb_code_mass.argtypes = [_POINTER, _POINTER, ctypes.c_int32, _POINTER, _POINTER, _POINTER]
        lib.eb_code_mass_workspace.argtypes = [_POINTER, ctypes.c_int]
        lib.eb_code_mass_workspace.restype = ctypes.c_size_t
        self._lent = 0

    def code_mass(self, table: BlockTable, index: int, moments: F32 | None) -> list[CodeMass]:
        """Of every view of block `index`; moments f32[K] >= 0, None = 1 each.

        Raises KernelError where a plane of the block is absent, or the moments are no moments of it.
        """
        layout = table.layout
        check_moments(moments, layout.cols)
        self._lend(layout.cols)
        mass = np.empty((len(layout.views), 1 << MAX_PLANES))
        energy = np.empty(len(layout.views))
        arrays = None if moments is None else address(moments), address(mass), address(energy)
        check(self.library.eb_code_mass(self.context, native_block(table), index, *arrays))
        forms = [view.shape.format for view in layout.views]
        return [_of(form, mass[i], float(energy[i])) for i, form in enumerate(forms)]

    def _lend(self, cols: int) -> None:
        """A workspace for matrices of so many columns."""
        needed = int(self.library.eb_code_mass_workspace(self.context, cols))
        if needed > self._lent:
            self.set_workspace(np.empty(needed, np.uint8))
            self._lent = needed


def _of(form: MatrixFormat, mass: F64, energy: float) -> CodeMass:
    used = mass[: 1 << form.planes].copy()
    return CodeMass(form, used, energy_of(form, used, energy))
