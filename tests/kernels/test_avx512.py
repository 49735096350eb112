"""The AVX-512 plane kernels on a machine without AVX-512: built against SIMDe, the same bits as AVX2."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ebbtide.kernels.cpu import library, linear_ops
from ebbtide.kernels.cpu.library import Handle, best_isa, check
from ebbtide.kernels.cpu.linear_ops import LinearOps
from ebbtide.kernels.layout import FORMATS, MatrixShape, block_layout
from tests.helpers.formats import KERNEL_FORMATS
from tests.helpers.plane_blocks import scattered_table

SOURCES = Path(library.__file__).parent / "src"
HERE = Path(__file__).parent / "emulated"
BASELINE = ("product", "block", "linear", "moe", "embed", "elementwise", "context", "pool", "isa")
FLAGS = ("-std=c++17", "-O0", "-fno-math-errno", "-ffp-contract=off", "-fPIC", "-pthread", "-I", str(SOURCES))
EMULATED = (
    *("-mavx2", "-mfma", "-mf16c", "-DEB_EMULATED_AVX512", "-DSIMDE_ENABLE_NATIVE_ALIASES"),
    *("-include", str(HERE / "avx512.h")),
)
COMPILER = shutil.which("g++") or shutil.which("c++")
SIMDE = any(Path(folder, "simde/x86/avx512.h").exists() for folder in ("/usr/include", "/usr/local/include"))

pytestmark = pytest.mark.skipif(
    COMPILER is None or not SIMDE or best_isa() == "portable", reason="needs a compiler, SIMDe and AVX2"
)


class EmulatedOps(LinearOps, Handle):
    """Plane operations of whatever library is loaded."""

    def _call(self, name: str, *arguments: object) -> None:
        check(getattr(self.library, name)(self.context, *arguments))


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedOps]:
    folder = tmp_path_factory.mktemp("avx512")
    target = folder / "emulated.so"
    unit = folder / "linear_avx512.o"
    assert COMPILER is not None
    compile_unit = [COMPILER, *FLAGS, *EMULATED, "-c", str(SOURCES / "linear_avx512.cpp"), "-o", str(unit)]
    subprocess.run(compile_unit, check=True, capture_output=True)
    rest = [str(SOURCES / f"{name}.cpp") for name in BASELINE]
    link = [COMPILER, *FLAGS, "-shared", *rest, str(HERE / "no_others.cpp"), str(unit), "-o", str(target)]
    subprocess.run(link, check=True, capture_output=True)
    yield _ops(ctypes.CDLL(str(target)), "avx512")


def _ops(lib: ctypes.CDLL, isa: str) -> EmulatedOps:
    with pytest.MonkeyPatch.context() as patch:
        library.declare(lib)
        patch.setattr(library, "library", lambda: lib)
        ops = EmulatedOps(isa, 2, spin_us=0)
    linear_ops.declare(lib)
    ops.set_workspace(np.full(1 << 22, 0xFF, np.uint8))
    return ops


@pytest.fixture(scope="module")
def native() -> EmulatedOps:
    return _ops(library.library(), "avx2")


@pytest.mark.parametrize("name", KERNEL_FORMATS)
def test_products_have_the_bits_of_avx2(name: str, emulated: EmulatedOps, native: EmulatedOps) -> None:
    rng = np.random.default_rng(1)
    form = KERNEL_FORMATS[name]
    cols = 2 * form.col_multiple
    layout = block_layout([MatrixShape(37, cols, form)], page_bytes=4096, floor_planes=1)
    table = scattered_table(layout, rng, range(1, form.planes + 1))
    for rows in (1, 2, 7, 13):
        x = rng.standard_normal((rows, cols)).astype(np.float32)
        for index in range(form.planes):
            out, expected = np.empty((2, rows, 37), np.float32)
            emulated.linear(x, table, out, index=index)
            native.linear(x, table, expected, index=index)
            assert out.tobytes() == expected.tobytes(), (rows, index)


def test_experts_have_the_bits_of_avx2(emulated: EmulatedOps, native: EmulatedOps) -> None:
    rng = np.random.default_rng(2)
    form = FORMATS["Q5_1"]
    gate_up = block_layout([MatrixShape(96, 64, form)] * 2, page_bytes=4096, floor_planes=1)
    down = block_layout([MatrixShape(50, 96, form)], page_bytes=4096, floor_planes=1)
    tables = scattered_table(gate_up, rng, [5, 3, 4]), scattered_table(down, rng, [5, 2, 4])
    x = rng.standard_normal((9, 64)).astype(np.float32)
    idx = np.stack([rng.permutation(3)[:2] for _ in range(9)]).astype(np.int32)
    out, expected = np.zeros((2, 9, 2, 50), np.float32)
    for activation in ("silu", "gelu"):
        emulated.moe(x, idx, np.ones(3, np.uint8), *tables, out, activation)
        native.moe(x, idx, np.ones(3, np.uint8), *tables, expected, activation)
        assert out.tobytes() == expected.tobytes()


def test_element_wise_operations_have_the_bits_of_avx2(emulated: EmulatedOps, native: EmulatedOps) -> None:
    rng = np.random.default_rng(3)
    gate_up = (rng.standard_normal((5, 2 * 61)) * 20).astype(np.float32)
    pair, weights = rng.standard_normal((5, 3, 61)).astype(np.float32), np.ones((5, 3), np.float32)
    results = []
    for ops in (emulated, native):
        out = np.empty((5, 61), np.float32)
        ops.glu(gate_up, out, "gelu")
        ops.combine(pair, weights, out)
        results.append(out.tobytes())
    assert results[0] == results[1]
