#!/usr/bin/env python3
"""Everything that can be found out on a machine with a card, in one go: right numbers, speed, memory, models.

    python tests/gpu/check_card.py [--json FILE] [--only PART,...] [--minutes 8]
    python tests/gpu/check_card.py --dry-run

Needs no network: models are made here, the C++ kernels are built from source. Each part has a process of its
own, so that one failure does not hide the rest; 1 is returned unless every goal was reached. With --dry-run
the same code runs at tiny sizes on a card in the process's own memory, in Triton's interpreter.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:1] = [str(ROOT), str(ROOT / "src"), str(ROOT / "packaging")]  # not this folder


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry-run", action="store_true", help="no card: tiny sizes, in the interpreter")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all that was found")
    parser.add_argument("--only", default="", metavar="PART,...", help="only these parts")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all of it (default: 8)")
    parser.add_argument("--seed", type=int, help="of the random data (default: another one each time)")
    parser.add_argument("--folder", type=Path, help="for the models that are made (default: a temporary one)")
    parser.add_argument(
        "--together", type=int, help="parts at once where none measures (default: by processors)"
    )
    parser.add_argument("--break", dest="broken", default="", help=argparse.SUPPRESS)
    parser.add_argument("--hold", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if options.hold is not None:
        from tests.gpu.holder import hold

        return hold(options.hold, dry=options.dry_run)
    began = time.monotonic()
    if options.dry_run:
        import tests.helpers.triton_interpreter  # noqa: F401 - before anything imports Triton
    else:
        os.environ.pop("TRITON_INTERPRET", None)
    seed = time.time_ns() % 10**6 if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="ebbtide-card-", dir=options.folder) as folder:
        os.environ["EBBTIDE_HOME"] = folder
        return check(options, seed, began, Path(folder))


def import_once() -> None:
    """What takes long to import and all parts use; nothing of it touches the card."""
    with suppress(ImportError):  # the part that says so runs all the same
        import torch  # noqa: F401
        import triton  # noqa: F401


def check(options: argparse.Namespace, seed: int, began: float, folder: Path) -> int:
    """Run, print and write; what was found so far is written after each part, should somebody end this."""
    from tests.gpu.parts import chosen_parts
    from tests.gpu.rows import TIME_TAKEN, Row, as_json, progress, table
    from tests.gpu.runner import run_parts

    parts = chosen_parts(options.only, options.broken, dry=options.dry_run, seed=seed, folder=folder)
    import_once()
    order = [part.name for part in parts]
    processors = os.cpu_count() or 2
    together = options.together or (2 if options.dry_run else max(2, min(8, processors // 2)))
    rows: list[Row] = []

    def tell(row: Row) -> None:
        print(progress(row), file=sys.stderr)
        rows.append(row)
        if row.case == TIME_TAKEN:
            write()

    def write() -> bool:
        rows.sort(key=lambda row: order.index(row.part))
        found = as_json(rows, dry=options.dry_run, seed=seed, seconds=time.monotonic() - began)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
        return bool(found["passed"])

    run_parts(parts, 60 * options.minutes - (time.monotonic() - began), tell, together=together)
    passed = write()
    print(table(rows))
    print(f"{'all goals reached' if passed else 'NOT all goals reached'}, seed {seed}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
