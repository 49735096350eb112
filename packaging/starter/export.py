"""A training checkpoint -> the delta file and manifest that ebbtide ships.

    python export.py BASE.gguf WHEEL WORK_DIR OUT_DIR [--scale 0.7]

Writes OUT_DIR/delta.npz and OUT_DIR/manifest.json, with WORK_DIR/evaluation.json if that is there.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from int8_factors import int8_factors
from numpy.typing import NDArray
from rows import SHARES

from ebbtide.engine.starter.delta import PROJECTIONS
from ebbtide.engine.starter.manifest import sha256_of
from ebbtide.engine.starter.quantise import QUANTISERS

DELTA_NAME = "delta.npz"
HEADER_BYTES = 2_000_000  # vocabulary and other metadata, about


def arrays_of(parameters: dict[str, NDArray[np.float32]], keep: float) -> Iterator[tuple[str, NDArray[Any]]]:
    layers = 1 + max(int(name.split(".")[1]) for name in parameters)
    for layer in range(layers):
        yield f"{layer}.router", parameters[f"experts.{layer}.router"]
        for projection in PROJECTIONS:
            a, b = (parameters[f"experts.{layer}.{side}_{projection}"] for side in "ab")
            a_codes, b_codes, scale = int8_factors(a, b * np.float32(keep))
            yield f"{layer}.{projection}.a", a_codes
            yield f"{layer}.{projection}.b", b_codes
            yield f"{layer}.{projection}.scale", scale


def base_entry(base: Path, wheel: Path) -> dict[str, Any]:
    package, version = wheel.name.split("-")[:2]
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".gguf"))
    return {
        "package": package.replace("_", "-"),
        "version": version,
        "wheel": wheel.name,
        "wheel_bytes": wheel.stat().st_size,
        "wheel_sha256": sha256_of(wheel),
        "member": member,
        "gguf_bytes": base.stat().st_size,
        "gguf_sha256": sha256_of(base),
        "model": "SmolLM2-135M-Instruct",
        "licence": "Apache-2.0",
    }


def out_bytes(base: Path, experts: int) -> dict[str, int]:
    """About the size of the expanded file for each quant."""
    tensors = GGUFReader(base).tensors
    kept = sum(int(tensor.n_bytes) for tensor in tensors if not _is_ffn(tensor.name))
    sizes = {}
    for quant, (_, quantise) in QUANTISERS.items():
        block = quantise(np.zeros((1, 32), np.float32)).size
        blocks = sum(int(tensor.n_elements) // 32 for tensor in tensors if _is_ffn(tensor.name))
        sizes[quant] = kept + experts * blocks * block + HEADER_BYTES
    return sizes


def _is_ffn(name: str) -> bool:
    return any(f"ffn_{projection}.weight" in name for projection in PROJECTIONS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("base", "wheel", "work", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--scale", type=float, default=0.7, help="share of the trained change to keep")
    args = parser.parse_args()
    saved = torch.load(args.work / "checkpoint.pt", weights_only=True)
    parameters = dict(zip(saved["names"], (value.numpy() for value in saved["parameters"]), strict=True))
    evaluation = args.work / "evaluation.json"
    args.out.mkdir(parents=True, exist_ok=True)
    delta = args.out / DELTA_NAME
    np.savez(delta, **dict(arrays_of(parameters, args.scale)))  # type: ignore[arg-type]
    experts = int(parameters["experts.0.router"].shape[0])
    manifest = {
        "licence": "Apache-2.0",
        "base": base_entry(args.base, args.wheel),
        "delta": {
            "file": DELTA_NAME,
            "bytes": delta.stat().st_size,
            "sha256": sha256_of(delta),
            "experts": experts,
            "used": 2,
            "rank": saved["rank"],
            "scale": args.scale,
        },
        "out_bytes": out_bytes(args.base, experts),
        "training": {
            "tokens_seen": saved["tokens"],
            "steps": saved["step"],
            "domain_shares": SHARES,
            "recipe": saved["recipe"],
            "split": "by the hash of the file's (or the question's) name",
        },
        "held_out": json.loads(evaluation.read_text()) if evaluation.exists() else None,
        "sources": json.loads((args.work / "sources.json").read_text()),
    }
    (args.out / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
    print(f"{delta}: {delta.stat().st_size / 1e6:.1f} MB, {saved['tokens']} tokens seen")


if __name__ == "__main__":
    main()
