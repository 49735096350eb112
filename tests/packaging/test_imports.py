"""Which part may import which, and what the app's process stays free of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "numpy", "tokenizers", "gguf", "transformers", "llama_cpp")


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    command = [str(program), "--no-cache", "--config", str(folder / "pyproject.toml")]
    source = {**os.environ, "PYTHONPATH": str(folder / "src")}
    return subprocess.run(command, cwd=folder, env=source, capture_output=True, text=True, check=False)


def test_layers_import_downwards_only() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " kept" in done.stdout


def test_the_contract_notices_an_upward_import(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    for name in ("app", "engine", "kernels"):
        folder = tmp_path / "src" / "ebbtide" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    (tmp_path / "src/ebbtide/__init__.py").touch()
    (tmp_path / "src/ebbtide/kernels/wrong.py").write_text("import ebbtide.engine\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert "ebbtide.kernels is not allowed to import ebbtide.engine" in done.stdout


@pytest.mark.parametrize("module", ["ebbtide.app.cli", "ebbtide.engine.client", "ebbtide.engine.messages"])
def test_the_apps_process_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []
