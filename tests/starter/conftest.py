"""A tiny base model in a wheel, a delta for it, and a pip that serves that wheel from a folder."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ebbtide.engine.starter.build import StarterBuilder
from ebbtide.engine.starter.download import PipResult
from tests.helpers.tiny_models import write_tiny

EXPERTS, RANK, LAYERS, WIDTH, FFN = 8, 4, 2, 64, 96
MEMBER = "tiny/base.gguf"
WHEEL = "tiny-1.0-py3-none-any.whl"


@dataclass
class FakePip:
    """Serves `wheel`; `before` runs first and may raise or return a failure."""

    wheel: Path
    before: Callable[[Path], PipResult | None] = lambda folder: None
    asked: list[str] = field(default_factory=list)

    def __call__(self, requirement: str, folder: Path, watch: Callable[[int], None]) -> PipResult:
        self.asked.append(requirement)
        if (failure := self.before(folder)) is not None:
            return failure
        shutil.copy(self.wheel, folder / WHEEL)
        watch(self.wheel.stat().st_size)
        return PipResult(0, "")


@dataclass
class World:
    """Everything a builder needs, below one folder."""

    root: Path
    base: Path
    pip: FakePip

    @property
    def assets(self) -> Path:
        return self.root / "assets"

    @property
    def folder(self) -> Path:
        return self.root / "cache" / "starter"

    def builder(self, quant: str = "Q8_0", **seams: Any) -> StarterBuilder:
        fakes: dict[str, Any] = {
            "runner": self.pip,
            "assets": self.assets,
            "free_bytes": lambda folder: 1 << 40,
        }
        return StarterBuilder(self.root / "cache", quant, **(fakes | seams))

    def write_delta(self, *, zero: bool) -> None:
        """A delta of zeros or of random codes, and the manifest that goes with it."""
        path = self.assets / "delta.npz"
        np.savez(path, **delta_arrays(zero))  # type: ignore[arg-type]
        wheel = self.root / WHEEL
        base: dict[str, Any] = {"package": "tiny", "version": "1.0", "wheel": WHEEL, "member": MEMBER}
        base |= {"wheel_bytes": wheel.stat().st_size, "wheel_sha256": sha256(wheel)}
        base |= {"gguf_bytes": self.base.stat().st_size, "gguf_sha256": sha256(self.base)}
        delta = {"file": path.name, "sha256": sha256(path)}
        sizes = {"Q8_0": 1_000_000, "Q4_1": 1_000_000, "Q5_1": 1_000_000}
        manifest = {"base": base, "delta": delta, "out_bytes": sizes}
        (self.assets / "manifest.json").write_text(json.dumps(manifest))


def delta_arrays(zero: bool) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for layer in range(LAYERS):
        arrays[f"{layer}.router"] = rng.normal(0, 0.1, (EXPERTS, WIDTH)).astype(np.float32)
        for name, out, inner in (("gate", FFN, WIDTH), ("up", FFN, WIDTH), ("down", WIDTH, FFN)):
            scale = np.zeros((EXPERTS, out)) if zero else rng.uniform(0.01, 0.05, (EXPERTS, out))
            arrays[f"{layer}.{name}.a"] = rng.integers(-127, 128, (EXPERTS, RANK, inner)).astype(np.int8)
            arrays[f"{layer}.{name}.b"] = rng.integers(-127, 128, (EXPERTS, out, RANK)).astype(np.int8)
            arrays[f"{layer}.{name}.scale"] = scale.astype(np.float16)
    return arrays


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def world(tmp_path: Path) -> World:
    base = write_tiny(
        tmp_path / "base.gguf", "llama", quant="Q4_1", types={"token_embd.*": "Q8_0"}, tied=True,
        layers=LAYERS, d_model=WIDTH, d_ff=FFN, heads=2, kv_heads=1,
    )  # fmt: skip
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as archive:
        archive.write(base, MEMBER)
    world = World(tmp_path, base, FakePip(tmp_path / WHEEL))
    world.assets.mkdir()
    world.write_delta(zero=True)
    return world
