"""The kernels as they are compiled for cards: nothing spilled, wide loads, denormal numbers kept."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TOOL = Path(__file__).parents[2] / "tools" / "aot.py"


def table(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """The tool's rows; in a process of its own, because Triton compiles only where it does not interpret."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(folder)
    command = [sys.executable, str(TOOL), "--json", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr or done.stdout
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def test_plane_products_on_the_oldest_and_the_newest_cards(tmp_path: Path) -> None:
    arches = ("75", "86", "90", "120")
    rows = table(tmp_path, "--kernel", "HALF b8", *(part for arch in arches for part in ("--arch", arch)))
    assert [row["arch"] for row in rows] == [75, 86, 90, 120]
    for row in rows:
        assert row["spilled_bytes"] == 0 and not row["flushes_denormals"], row
        assert row["widest_load_bytes"] == 16, row
        assert row["integer_per_plane_byte"] <= 4.5, row


def test_the_order_of_sums_is_the_same_for_any_number_of_rows(tmp_path: Path) -> None:
    rows = table(tmp_path, "--kernel", "K6 mixed x", "--arch", "86")
    assert [row["kernel"][-2:] for row in rows] == ["x1", "x2", "x4", "x8"]
    assert len(rows[0]["sum_orders"]) == 1
    for row in rows:
        assert row["sum_orders"] == rows[0]["sum_orders"] and row["spilled_bytes"] == 0, row


def test_attention_sums_in_one_order_for_a_token_and_for_a_prompt(tmp_path: Path) -> None:
    """Three queries share a program where there is one row, and six where there are many."""
    rows = table(tmp_path, "--kernel", "bf16 3x64", "--arch", "86")
    assert [row["kernel"].split()[1] for row in rows] == ["split", "body"]
    assert rows[0]["sum_orders"] == rows[1]["sum_orders"] and len(rows[0]["sum_orders"]) >= 3
    for row in rows:
        assert row["spilled_bytes"] == 0 and not row["flushes_denormals"], row
        assert row["widest_load_bytes"] == 16, row
