#!/usr/bin/env python3
"""Compile the Triton kernels for cards that are not here, and tell what became of them.

No card and no driver is needed: Triton brings the assembler and the disassembler. A row is a kernel on an
architecture: registers, bytes spilled, bytes of shared memory, the widest load in bytes, whether the code
treats denormal numbers as zeros (it must not: codes are denormal numbers), and for plane products the integer
instructions of the loop's body for each byte of planes that it reads. "mixed" counts both of its ways.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
POINTERS = {
    "x": "*fp32", "arranged": "*fp32", "pages": "*i64", "widths": "*i32", "down_widths": "*i32",
    "gate_up_widths": "*i32", "out": "*fp32", "bias": "*fp32", "fault": "*i32", "idx": "*i32",
    "chosen": "*u8", "hidden": "*fp32", "pair": "*fp32", "weights": "*fp32",
}  # fmt: skip
UNALIGNED = {"widths", "bias", "out", "fault"}
"""Pointers that a launcher moves along, so that nothing is known of them."""
VIEWS = {"view", "gate", "up"}
FLOATING = ("FADD", "FMUL", "FFMA", "FSEL", "FSETP", "FMNMX", "HADD2", "HMUL2", "HFMA2", "MUFU", "I2F", "F2F")
OTHER = (
    "LD",
    "ST",
    "BRA",
    "EXIT",
    "BSYNC",
    "BSSY",
    "WARPSYNC",
    "BAR",
    "NOP",
    "CALL",
    "RET",
    "ATOM",
    "RED",
    "S2",
)


@dataclass(frozen=True)
class Case:
    """A kernel and the constants to compile it with."""

    name: str
    kernel: Any
    constants: dict[str, Any]
    warps: int
    plane_bytes: int = 0
    """Bytes of planes that a thread reads in one pass of the loop, 0 if there is no such loop."""


@dataclass(frozen=True)
class Row:
    """What one kernel became on one architecture."""

    kernel: str
    arch: int
    registers: int
    spilled_bytes: int
    shared_bytes: int
    widest_load_bytes: int
    flushes_denormals: bool
    loop_instructions: int
    integer_per_plane_byte: float | None
    sum_layouts: tuple[str, ...]
    """How the values of sums across threads are spread over them: what decides the order of such a sum."""


def cases() -> Iterator[Case]:
    """Every kernel, in the forms that matter."""
    from ebbtide.kernels.layout import ScaleKind
    from ebbtide.kernels.triton.arrange import arrange_kernel
    from ebbtide.kernels.triton.combine import combine_kernel
    from ebbtide.kernels.triton.linear import linear_kernel
    from ebbtide.kernels.triton.moe import down_kernel, hidden_kernel
    from ebbtide.kernels.triton.planes import MIXED

    tile = {"PAGE": 48 << 10, "HALVES": 64}
    plain = {**tile, "BIAS": False, "ACCUMULATE": False}

    def linear(kind: ScaleKind, width: int, rows: int) -> Case:
        constants = {**plain, "ROWS": rows, "KIND": int(kind), "WIDTH": width}
        read = 16 * (width if width > 0 else 12)
        said = f"b{width}" if width > 0 else "mixed"
        return Case(f"linear {kind.name} {said} x{rows}", linear_kernel, constants, 4, read)

    for width in range(1, 9):
        yield linear(ScaleKind.HALF, width, 1)
    yield linear(ScaleKind.HALF_MIN, 4, 1)
    yield linear(ScaleKind.K6, 4, 1)
    yield linear(ScaleKind.K8, 6, 1)
    for rows in (1, 2, 4, 8):
        yield linear(ScaleKind.K6, MIXED.value, rows)
    gates = {"GATE": 2, "UP": 2, "GATE_WIDTH": MIXED.value, "UP_WIDTH": MIXED.value}
    hidden = {**tile, **gates, "ACTIVATION": 0, "TOP_K": 8, "HIDDEN": 64}
    yield Case("moe hidden K6 mixed", hidden_kernel, hidden, 4)
    yield Case("moe down K8 mixed", down_kernel, {**tile, "KIND": 3, "WIDTH": MIXED.value}, 4)
    yield Case("arrange", arrange_kernel, {"HALVES": 64}, 4)
    yield Case("combine", combine_kernel, {"TOP_K": 8, "COLS": 256}, 2)


def compiled(case: Case, arch: int) -> Any:
    """Triton's result for one architecture."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ebbtide.kernels.triton.views import View

    signature: dict[str, Any] = {}
    aligned: list[tuple[int, ...]] = []
    for place, name in enumerate(case.kernel.arg_names):
        if name in case.constants:
            signature[name] = "constexpr"
        elif name in VIEWS:
            signature[name] = View("i32", "i32", ("i32",) * 8, "i32", "i32", ("i32",) * 3, "fp32")  # type: ignore[arg-type]
            aligned += [(place, 0), (place, 1), *((place, 2, plane) for plane in range(8))]
        else:
            signature[name] = POINTERS.get(name, "i32")
            if name not in UNALIGNED and (name in POINTERS or name.endswith("_step")):
                aligned.append((place,))
    attributes = {path: [["tt.divisibility", 16]] for path in aligned}
    source = ASTSource(case.kernel, signature, case.constants, attributes)
    options = {"num_warps": case.warps, "enable_fp_fusion": False}
    return triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)


def tool(name: str, *arguments: str) -> str:
    """Output of one of the programs that come with Triton."""
    import triton

    program = Path(triton.__file__).parent / "backends/nvidia/bin" / name
    return subprocess.run([str(program), *arguments], check=True, capture_output=True, text=True).stdout


def inspect(case: Case, arch: int, folder: Path) -> Row:
    """Compile, assemble, disassemble and count."""
    result = compiled(case, arch)
    cubin = folder / "kernel.cubin"
    cubin.write_bytes(result.asm["cubin"])
    usage = dict(re.findall(r"([A-Z]+):(\d+)", tool("cuobjdump", "-res-usage", str(cubin)).splitlines()[-1]))
    code = tool("nvdisasm", "-c", str(cubin))
    loads = [int(bits or 32) for bits in re.findall(r"LDG\.E(?:\.(64|128))?", code)]
    body = loop_body(code)
    integer = sum(count for opcode, count in body.items() if not opcode.startswith((*FLOATING, *OTHER)))
    return Row(
        case.name,
        arch,
        int(usage["REG"]),
        int(usage["LOCAL"]) + int(usage["STACK"]),
        int(result.metadata.shared),
        max(loads, default=0) // 8,
        ".ftz" in result.asm["ptx"],
        sum(body.values()),
        round(integer / case.plane_bytes, 2) if case.plane_bytes else None,
        sum_layouts(result.asm["ttgir"]),
    )


def sum_layouts(intermediate: str) -> tuple[str, ...]:
    """Layouts of the operands of all reductions, written out."""
    named = dict(re.findall(r"^(#\w+) = (.*)$", intermediate, re.MULTILINE))
    used = re.findall(r"\}\)\s*:\s*\(tensor<\w+, (#\w+)>", intermediate)
    return tuple(sorted({named[name] for name in used}))


def loop_body(code: str) -> Counter[str]:
    """Opcodes between the targets of backward branches and the branches: the longest such stretch."""
    labels: dict[str, int] = {}
    lines: list[str] = []
    for line in code.splitlines():
        if label := re.match(r"\s*(\.L_x?_?\d+):", line):
            labels[label[1]] = len(lines)
        elif instruction := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line):
            lines.append(re.sub(r"^@!?U?P\w+\s+", "", instruction[1].strip()))
    stretches = [
        lines[labels[target[1]] : place + 1]
        for place, line in enumerate(lines)
        if (target := re.search(r"BRA.*`\((\.L_x?_?\d+)\)", line))
        and labels.get(target[1], place + 1) < place
    ]
    return Counter(line.split()[0] for line in max(stretches, key=len, default=[]))


def rows(names: list[str], arches: list[int]) -> list[Row]:
    """All chosen kernels on all chosen architectures."""
    with tempfile.TemporaryDirectory() as folder:
        chosen = [case for case in cases() if not names or any(name in case.name for name in names)]
        return [inspect(case, arch, Path(folder)) for case in chosen for arch in arches]


def main() -> int:
    """Print the table, or JSON; 1 if a kernel spills or treats denormal numbers as zeros."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernel", action="append", default=[], help="only kernels whose name contains this")
    parser.add_argument("--arch", action="append", type=int, default=[], choices=ARCHITECTURES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.pop("TRITON_INTERPRET", None)
    table = rows(options.kernel, options.arch or list(ARCHITECTURES))
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=1))
    else:
        print(
            f"{'kernel':24}{'sm':>5}{'regs':>6}{'spill':>7}{'shared':>8}{'load':>6}{'ftz':>5}{'loop':>7}{'int/B':>7}"
        )
        for row in table:
            per_byte = "-" if row.integer_per_plane_byte is None else f"{row.integer_per_plane_byte:.2f}"
            print(
                f"{row.kernel:24}{row.arch:5}{row.registers:6}{row.spilled_bytes:7}{row.shared_bytes:8}"
                f"{row.widest_load_bytes:6}{'yes' if row.flushes_denormals else 'no':>5}"
                f"{row.loop_instructions:7}{per_byte:>7}"
            )
    return int(any(row.spilled_bytes or row.flushes_denormals for row in table))


if __name__ == "__main__":
    sys.exit(main())
