#!/usr/bin/env python3
"""Compile the Triton kernels for cards that are not here, and tell what became of them.

No card and no driver is needed: Triton brings the assembler and the disassembler. A row is a kernel on an
architecture: registers, bytes spilled, bytes of shared memory, the widest load in bytes, whether the code
treats denormal numbers as zeros (it must not: codes are denormal numbers; powers of two may end there), and
for plane products the integer instructions of the loop's body for each byte of planes that it reads. "mixed"
counts both of its ways.
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
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # run as a script: find `tests`

from tests.tools.sum_orders import sum_orders

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
TYPES = {
    "*fp32": "x arranged out bias hidden pair weights weight q k v work cos sin w scores gate_up",
    "*i32": "widths down_widths gate_up_widths fault faults idx positions ids page_ids requests",
    "*i64": "pages scales sources sealed tags expected",
    "*u8": "chosen bad",
    "i64": "staged targets state least_ns",
    "fp32": "factor eps",
}
"""Of arguments by name; all others are i32."""
UNALIGNED = {"widths", "bias", "out", "fault", "pages_step"}
"""Pointers that a launcher moves along, and strides, so that nothing is known of them."""
ALIGNED = {"staged"}
"""Numbers that are multiples of 16, beside strides."""
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
    sum_orders: tuple[str, ...]
    """The orders of its sums across threads."""


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
    yield from row_cases()
    yield from kv_cases()
    yield from attention_cases()


def row_cases() -> Iterator[Case]:
    """What is done to rows of activations; norms of 2048 columns, heads of 128, 128 experts."""
    from ebbtide.kernels.triton.embed import HALVES, embed_kernel
    from ebbtide.kernels.triton.glu import glu_kernel, row_gate_kernel
    from ebbtide.kernels.triton.rmsnorm import rmsnorm_kernel
    from ebbtide.kernels.triton.rope import rope_kernel
    from ebbtide.kernels.triton.router import COLS, EACH, score_kernel, select_kernel

    yield Case("embed K6", embed_kernel, {"KIND": 2, "PAGE": 0, "HALVES": HALVES}, 4)
    yield Case("glu silu", glu_kernel, {"ACTIVATION": 0, "COLS": 256}, 2)
    yield Case("row gate", row_gate_kernel, {"COLS": 1024}, 4)
    yield Case("rmsnorm", rmsnorm_kernel, {"COLS": 1024}, 4)
    yield Case("rmsnorm heads", rmsnorm_kernel, {"COLS": 128}, 1)
    yield Case("rope", rope_kernel, {"INTERLEAVED": False, "PAIRS": 64}, 1)
    yield Case("router scores", score_kernel, {"EACH": EACH, "COLS": COLS}, 2)
    chosen = {"TOP_K": 8, "NORMALISE": True, "EXPERTS": 128, "SLOTS": 8}
    yield Case("router select", select_kernel, chosen, 1)


def kv_cases() -> Iterator[Case]:
    """What moves pages and fills them: 24 tokens of heads of 128."""
    from ebbtide.kernels.triton.kv import ROWS, kv_write_kernel
    from ebbtide.kernels.triton.pace import begin_kernel, card_clock, end_kernel
    from ebbtide.kernels.triton.scatter import PIECE_BYTES, scatter_kernel
    from ebbtide.kernels.triton.seal import TOKENS_TOGETHER, seal_kernel
    from ebbtide.kernels.triton.tags import TILE, tags_kernel

    page = {"TOKENS": 24, "HEAD_DIM": 128}
    yield Case("kv write x1", kv_write_kernel, {**page, "ROWS": 1}, 1)
    yield Case(f"kv write x{ROWS}", kv_write_kernel, {**page, "ROWS": ROWS}, 4)
    yield Case("seal", seal_kernel, {**page, "TILE": TOKENS_TOGETHER}, 4)
    yield Case("tags", tags_kernel, {"TILE": TILE}, 4)
    yield Case("pace begin", begin_kernel, {"CLOCK": card_clock}, 1)
    yield Case("pace end", end_kernel, {"CLOCK": card_clock}, 1)
    yield Case("scatter", scatter_kernel, {"VECTORS": PIECE_BYTES // 16}, 4)


def attention_cases() -> Iterator[Case]:
    """Attention: query heads for each head of keys, and their size; with FP8 pages and without."""
    from ebbtide.kernels.triton.attention import BODY_QUERIES, body_kernel, merge_kernel, split_kernel
    from ebbtide.kernels.triton.attention_part import WARPS

    for group, head_dim, may_seal in ((8, 128, False), (8, 128, True), (3, 64, False), (1, 128, False)):
        name = f"{'fp8' if may_seal else 'bf16'} {group}x{head_dim}"
        shape = {"GROUP": group, "HEADS": group, "MAY_SEAL": may_seal, "TOKENS": 24, "HEAD_DIM": head_dim}
        yield Case(f"attention split {name}", split_kernel, {**shape, "LAST": False}, WARPS)
        rows = {"ROWS": max(1, BODY_QUERIES // group)}
        yield Case(f"attention body {name}", body_kernel, {**shape, **rows}, WARPS)
    yield Case("attention merge", merge_kernel, {"HEAD_DIM": 128, "MAY_SEAL": False, "LAST": False}, 2)


def compiled(case: Case, arch: int) -> Any:
    """Triton's result for one architecture."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ebbtide.kernels.triton.attention import most_registers
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
            signature[name] = next((kind for kind, names in TYPES.items() if name in names.split()), "i32")
            is_regular = signature[name].startswith("*") or name.endswith(("_step", "_head"))
            if name in ALIGNED or (is_regular and name not in UNALIGNED):
                aligned.append((place,))
    attributes = {path: [["tt.divisibility", 16]] for path in aligned}
    source = ASTSource(case.kernel, signature, case.constants, attributes)
    registers = most_registers(arch, may_seal=case.constants.get("MAY_SEAL", False))
    options = {"num_warps": case.warps, "maxnreg": registers, "enable_fp_fusion": False}
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
        bool(re.search(r"(?<!ex2\.approx)\.ftz", result.asm["ptx"])),
        sum(body.values()),
        round(integer / case.plane_bytes, 2) if case.plane_bytes else None,
        sum_orders(result.asm["ttgir"]),
    )


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


def rows(names: list[str], arches: list[int], jobs: int) -> Iterator[Row]:
    """All chosen kernels on all chosen architectures, in order, each as soon as it is known."""
    chosen = [
        place for place, case in enumerate(cases()) if not names or any(name in case.name for name in names)
    ]
    work = [(place, arch) for place in chosen for arch in arches]
    if jobs == 1:
        yield from map(row, work)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(row, work)


def row(work: tuple[int, int]) -> Row:
    """The row of a case, by its place among `cases`, on an architecture."""
    place, arch = work
    with tempfile.TemporaryDirectory() as folder:
        return inspect(list(cases())[place], arch, Path(folder))


def line(found: Row) -> str:
    """A row as `HEADER` has its columns."""
    per_byte = "-" if found.integer_per_plane_byte is None else f"{found.integer_per_plane_byte:.2f}"
    return (
        f"{found.kernel:30}{found.arch:5}{found.registers:6}{found.spilled_bytes:7}{found.shared_bytes:8}"
        f"{found.widest_load_bytes:6}{'yes' if found.flushes_denormals else 'no':>5}"
        f"{found.loop_instructions:7}{per_byte:>7}"
    )


HEADER = (
    f"{'kernel':30}{'sm':>5}{'regs':>6}{'spill':>7}{'shared':>8}{'load':>6}{'ftz':>5}{'loop':>7}{'int/B':>7}"
)


def main() -> int:
    """Print the table, or JSON; 1 if a kernel spills or treats denormal numbers as zeros."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernel", action="append", default=[], help="only kernels whose name contains this")
    parser.add_argument("--arch", action="append", type=int, default=[], choices=ARCHITECTURES)
    parser.add_argument("--jobs", type=int, default=1, help="processes that compile (default 1)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.pop("TRITON_INTERPRET", None)
    table = []
    if not options.json:
        print(HEADER)
    for found in rows(options.kernel, options.arch or list(ARCHITECTURES), options.jobs):
        table.append(found)
        if not options.json:
            print(line(found), flush=True)
    if options.json:
        print(json.dumps([asdict(found) for found in table], indent=1))
    return int(any(found.spilled_bytes or found.flushes_denormals for found in table))


if __name__ == "__main__":
    sys.exit(main())
