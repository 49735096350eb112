"""Where experts are paged: how long the pack took, and what the model file does without one."""

from typing import Any

from ebbtide.app.compare.contenders import Ebbtide
from ebbtide.app.compare.result import ebbtide_object, ratios
from ebbtide.app.compare.sample import Samples
from ebbtide.engine.messages import Load, Loaded
from ebbtide.engine.pack_names import PACK_SUFFIX


def pages_from_a_pack(loaded: Loaded, load: Load) -> bool:
    """Whether experts are paged, and from a pack that was made of `load.path`."""
    whole = loaded.base_bytes + loaded.expert_bytes + loaded.ample_bytes
    return load.pack != "plain" and loaded.memory.budget_bytes < whole and not load.path.endswith(PACK_SUFFIX)


def pack_object(plain: Ebbtide, samples: Samples, theirs: Samples, pack_s: float) -> dict[str, Any]:
    """The third contender's part of a result; its ratios are to llama.cpp's `theirs`. `pack_s` 0 = the pack
    was there before.
    """
    described = ebbtide_object(plain, samples)
    described["configuration"]["name"] = "exact, without a pack"
    return {"ebbtide_plain": described | ratios(samples, theirs), "pack_s": pack_s or None}
