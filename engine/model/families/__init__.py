"""The architectures that ebbtide computes, one file each."""

from collections.abc import Callable
from typing import NamedTuple

from ebbtide.engine.errors import ModelError
from ebbtide.engine.gguf import GgufFile
from ebbtide.engine.model.families import llama, olmoe, qwen2moe, qwen3moe
from ebbtide.engine.model.mapping import Mapper, ModelMap
from ebbtide.engine.model.spec import ModelSpec


class Family(NamedTuple):
    """How the files of one architecture are read."""

    read_spec: Callable[[GgufFile], ModelSpec]
    map_tensors: Callable[[Mapper, ModelSpec], None]


FAMILIES = {
    "llama": Family(llama.read_spec, llama.map_tensors),
    "olmoe": Family(olmoe.read_spec, olmoe.map_tensors),
    "qwen2moe": Family(qwen2moe.read_spec, qwen2moe.map_tensors),
    "qwen3moe": Family(qwen3moe.read_spec, qwen3moe.map_tensors),
}


def spec_from_gguf(file: GgufFile) -> ModelSpec:
    """What the model in `file` is. Raises ModelError, by name, for unknown architectures or bad metadata."""
    return _family(file).read_spec(file)


def map_model(file: GgufFile, spec: ModelSpec) -> ModelMap:
    """Where its weights lie. Raises ModelError, by name, for tensors missing, misshapen or unknown."""
    tensors = Mapper(file)
    _family(file).map_tensors(tensors, spec)
    return tensors.finish()


def _family(file: GgufFile) -> Family:
    architecture = file.require_str("general.architecture")
    if architecture not in FAMILIES:
        raise ModelError(
            f"{file.path.name} has the architecture {architecture!r}, which ebbtide does not know",
            hint="Use a model of one of the architectures " + ", ".join(FAMILIES) + ".",
        )
    return FAMILIES[architecture]
