"""Hatchling build hook: compiles the C++ kernels into the wheel, or in place for an editable install."""

import platform
import re
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_kernels


def platform_tag(system_platform: str, machine: str) -> str:
    """Wheel tag for what the compiler makes here: on macOS one architecture, even under a fat Python."""
    if system_platform.startswith("macosx"):
        return f"macosx_{build_kernels.MACOS_TARGET.replace('.', '_')}_{machine}"
    return re.sub(r"[^a-z0-9]", "_", system_platform.lower())


class KernelBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled library to a wheel; without a compiler the wheel is pure and falls back to torch."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Runs before files are collected; `version` is "standard" or "editable"."""
        if self.target_name != "wheel":
            return
        library = build_kernels.build(Path(self.root))
        if library is None:
            self.app.display_warning("ebbtide: no C++ compiler, so its slower torch kernels will be used")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag(sysconfig.get_platform(), platform.machine())}"
        if version != "editable":
            build_data["force_include"][str(library)] = f"ebbtide/kernels/cpu/{library.name}"
